"""A linear first layer with a bias gives its inputs away, to 1e-4, by gradients and by updates alike."""

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.attacks.reconstruction.gradients import LocalSteps, gradient, inputs_of, local_change
from fedloom.attacks.reconstruction.linear_layer import first_linear_layer, read_linear_layer


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=10)


def candidates(task, change):
    first = first_linear_layer(task)
    views = task.layout.views(change)
    return read_linear_layer(views[first.weight.name], views[first.bias.name])


@pytest.mark.parametrize("sample", [0, 7, 400])
def test_one_sample_is_exact_to_1e_4_by_its_gradient(task, sample):
    positions = task.federation.train.order[sample : sample + 1]
    x = inputs_of(task, positions)
    found = candidates(task, gradient(task, task.initial_row(), x, task.targets(positions)))
    torch.testing.assert_close(found[0], x[0].flatten(), atol=1e-4, rtol=0)


def test_one_sample_is_exact_to_1e_4_after_several_local_steps_in_single_precision(task):
    row, positions = task.initial_row(), task.federation.train.order[3:4]
    x = inputs_of(task, positions)
    trained = (row + local_change(task, row, x, task.targets(positions), LocalSteps(0.1, 5))).detach()
    torch.testing.assert_close(candidates(task, trained - row)[0], x[0].flatten(), atol=1e-4, rtol=0)


def test_a_neuron_that_one_sample_of_a_batch_activates_gives_that_sample():
    # neuron 0 is active for the first sample, neuron 1 for both, neuron 2 for none
    weights, biases = torch.tensor([[2.0, 4.0], [1.0, 1.0], [0.0, 0.0]]), torch.tensor([2.0, 0.5, 0.0])
    assert read_linear_layer(weights, biases).tolist() == [[1.0, 2.0], [2.0, 2.0]]
    assert read_linear_layer(0 * weights, 0 * biases).shape == (0, 2)


class Branches(nn.Module):
    """The layer that sees the inputs as they are is not the first one that was made."""

    def __init__(self):
        super().__init__()
        self.late = nn.Linear(5, 10)
        self.squashed = nn.Linear(64, 5)
        self.first = nn.Linear(64, 5)

    def forward(self, x):
        x = x.flatten(1)
        return self.late(torch.relu(self.first(x))) + self.late(self.squashed(x.tanh()))


@pytest.mark.parametrize(
    ("model", "name", "after"),
    [
        ("mlp", "1", True),
        ("logistic", "head", False),
        (Branches(), "first", True),
        (nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 10)), "2", False),
    ],
    ids=["mlp", "logistic", "branches", "tanh"],
)
def test_the_layer_is_found_by_what_it_sees(model, name, after):
    found = first_linear_layer(fl.task("digits", clients=3, model=model))
    assert found.name == name
    assert (found.next is not None) == after


@pytest.mark.parametrize(
    "model",
    ["cnn-small", nn.Sequential(nn.Flatten(), nn.Linear(64, 9, bias=False), nn.ReLU(), nn.Linear(9, 10))],
    ids=["convolution", "no bias"],
)
def test_there_may_be_none(model):
    assert first_linear_layer(fl.task("digits", clients=3, model=model)) is None
