"""Scaled confidence and losses: by the formula, and where a probability is 1 to the last digit."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.attacks.membership.signals import confidence_at, losses_at
from fedloom.core.errors import FedloomError
from support.synthetic import federation


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=3)


def test_the_confidence_is_the_logit_of_the_probability(task):
    positions, row = task.federation.train.order[:20], task.initial_row()
    model = task.model.eval()
    p = model(task.inputs(positions)).double().softmax(1)[torch.arange(20), task.targets(positions)]
    torch.testing.assert_close(confidence_at(task, row, positions), (p / (1 - p)).log(), atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(losses_at(task, row, positions), -p.log(), atol=1e-6, rtol=1e-6)


def test_it_keeps_its_digits_where_the_probability_is_one():
    sure = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    nn.init.zeros_(sure[1].weight)
    with torch.no_grad():
        sure[1].bias.copy_(torch.tensor([300.0, *[0.0] * 9]))
    task = fl.task("digits", clients=3, model=sure)
    zeros = task.federation.train.order[task.targets(task.federation.train.order) == 0][:3]
    expected = torch.full((3,), 300.0 - torch.tensor(9.0).log().item(), dtype=torch.float64)
    torch.testing.assert_close(confidence_at(task, task.initial_row(), zeros), expected)


def test_a_task_without_classes_is_refused():
    made = federation([20, 20], shape=(4,), classes=3)
    columns = {**made.columns, "y": made.columns["y"].float()}
    numbers = fl.task_of(replace(made, columns=columns, classes=1), "mlp")
    with pytest.raises(FedloomError, match="membership is judged by the classes"):
        losses_at(numbers, numbers.initial_row(), torch.arange(3))
