"""Inverting gradients: images by the direction of one step or of several local ones, and in a run."""

import pytest
import torch

import fedloom as fl
from fedloom.attacks.reconstruction.gradients import LocalSteps, inputs_of, local_change
from fedloom.attacks.reconstruction.inverting import invert_gradient, mismatch, total_variation
from fedloom.attacks.reconstruction.rebuilt import judge_rebuilt, value_range
from support.smooth_lenet import smooth_lenet


def attack(samples, sent_by, believed, iterations):
    """What is made of the first digits by an attacker who believes in some local steps."""
    task = fl.task("digits", clients=10, model=smooth_lenet())
    positions, row = task.federation.train.order[:samples], task.initial_row()
    x, y = inputs_of(task, positions), task.targets(positions)
    change = local_change(task, row.double(), x.double(), y, sent_by).detach().float()
    low, high = value_range(task)
    draw = torch.Generator().manual_seed(0)
    guess = invert_gradient(task, row, change, y, believed, low=low, high=high, iterations=iterations, generator=draw)
    return judge_rebuilt(guess.inputs, x, high - low)


def test_the_mismatch_and_the_variation_by_hand():
    one, other = torch.tensor([1.0, 0.0, 2.0]), torch.tensor([0.0, 3.0, 4.0])
    assert float(mismatch(one, other, [2, 1])) == pytest.approx(0.5)  # at right angles, and the same direction
    image = torch.tensor([[[[0.0, 1.0], [2.0, 1.0]]]])
    assert float(total_variation(image)) == pytest.approx((2 + 0) / 2 + (1 + 1) / 2)


@pytest.mark.slow
def test_an_image_is_rebuilt_from_one_step():
    assert float(attack(1, LocalSteps(0.1), LocalSteps(0.1), 200).psnr) > 20


@pytest.mark.slow
def test_repeating_the_local_steps_is_better_than_taking_them_for_one():
    several = LocalSteps(lr=2.0, count=4, batch_size=1)
    unrolled, as_one = (attack(2, several, believed, 100).psnr for believed in (several, LocalSteps()))
    assert float(unrolled.max()) > 40 > float(as_one.max())
    assert float(unrolled.mean()) > float(as_one.mean())


@pytest.mark.slow
@pytest.mark.parametrize("by", ["cosine", "dlg"])
def test_in_a_run_the_server_rebuilds_the_image_of_a_client_that_has_one(by):
    task = fl.task("digits", clients=1000, model=smooth_lenet())
    alone = next(client for client in range(1000) if int(task.federation.train.sizes[client]) == 1)
    attack = {"name": "gradientinversion", "victims": [alone], "by": by, "iterations": 150}
    found = fl.run(task, "fedavg", rounds=1, adversary=attack, local={"batch_size": 0, "lr": 0.5}, eval_every=0)
    metrics = found.records[-1]["metrics"]
    assert metrics["adversary/psnr"] > 20
    assert metrics["adversary/labels"] == 1.0
