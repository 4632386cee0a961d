"""Trap weights: what is alone in its bin is read exactly, and what is not is a mean of its bin."""

import pytest
import torch

import fedloom as fl
from fedloom.attacks.reconstruction.gradients import LocalSteps, inputs_of, local_change
from fedloom.attacks.reconstruction.linear_layer import first_linear_layer
from fedloom.attacks.reconstruction.rebuilt import judge_rebuilt, value_range
from fedloom.attacks.reconstruction.trap import bin_edges, measurement, read_trap, set_trap


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=10)


def caught(task, samples, steps):
    """What a trap makes of the first samples of a client."""
    first, row = first_linear_layer(task), task.initial_row()
    trapped = set_trap(task, row, first, torch.Generator().manual_seed(1), 0.3, 0.03)
    positions = task.federation.train[0][:samples]
    x = inputs_of(task, positions)
    sent = (trapped + local_change(task, trapped, x, task.targets(positions), steps)).detach()
    views = task.layout.views((sent - trapped).double())
    low, high = value_range(task)
    guesses = read_trap(views[first.weight.name], views[first.bias.name])
    return judge_rebuilt(guesses, x, high - low)


def test_a_difference_of_adjacent_neurons_is_the_sample_between_their_bins():
    # g = 1 for all; the first neuron sees both samples, the second one of them, the third none
    one, other = torch.tensor([1.0, 2.0]), torch.tensor([5.0, 7.0])
    weights, biases = torch.stack([one + other, other, 0 * one]), torch.tensor([2.0, 1.0, 0.0])
    found = read_trap(weights, biases)
    assert sorted(map(tuple, found.tolist())) == [(1.0, 2.0), (5.0, 7.0)]


def test_bins_are_equally_frequent(task):
    direction = measurement(64, torch.Generator().manual_seed(1))
    measured = inputs_of(task, task.federation.train.order).flatten(1) @ direction
    per_bin = torch.bucketize(measured, bin_edges(task, direction, 9)).bincount(minlength=10)
    assert int(per_bin.min()) > 0.4 * len(measured) / 9


def test_one_step_gives_most_images_of_a_small_batch(task):
    found = caught(task, 16, LocalSteps(0.1))
    assert found.recognised > 0.7
    assert float(found.psnr.max()) > 60


def test_the_more_images_share_the_bins_the_fewer_are_alone(task):
    shares = [caught(task, samples, LocalSteps(0.1)).recognised for samples in (20, 80, 160)]
    assert shares[0] > shares[1] > shares[2] > 0.2


def test_local_steps_blur_what_is_caught(task):
    once, often = (caught(task, 64, LocalSteps(0.1, steps, 16)).recognised for steps in (1, 40))
    assert once > often


def test_only_the_first_two_layers_are_changed(task):
    first, row = first_linear_layer(task), task.initial_row()
    trapped = set_trap(task, row, first, torch.Generator().manual_seed(1), 0.3, 0.03)
    changed = {
        name for name, tensor in task.layout.views(trapped).items() if not tensor.equal(task.layout.views(row)[name])
    }
    assert changed == {first.weight.name, first.bias.name, first.next.name}
