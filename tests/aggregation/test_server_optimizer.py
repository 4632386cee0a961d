"""Weights, means and server optimisers against hand-computed cases."""

import pytest
import torch

from fedloom.aggregation.mean import weights
from fedloom.aggregation.server_optimizer import ServerOptimizer
from fedloom.core.errors import FedloomError

SAMPLES, STEPS = torch.tensor([30, 10]), torch.tensor([1, 3])


@pytest.mark.parametrize(
    ("by", "expected"), [("samples", [0.75, 0.25]), ("steps", [0.25, 0.75]), ("uniform", [0.5, 0.5])]
)
def test_weights_by_samples_steps_or_alike(by, expected):
    assert weights(by, SAMPLES, STEPS).tolist() == expected


def test_nobody_made_a_step_then_all_count_alike():
    assert weights("steps", SAMPLES, torch.tensor([0, 0])).tolist() == [0.5, 0.5]


def test_plain_sgd_takes_the_mean_as_it_is():
    row, mean = torch.randn(50), torch.randn(50)
    new, state = ServerOptimizer("sgd", lr=1.0)(row, mean, {})
    assert torch.allclose(new, mean, atol=1e-6)
    assert state == {}


def test_momentum_by_hand():
    server = ServerOptimizer("sgd", lr=0.5, momentum=0.9)
    row, state = server(torch.tensor([0.0]), torch.tensor([1.0]), {})
    assert row.item() == pytest.approx(0.5)
    row, state = server(row, row + 2.0, state)
    assert row.item() == pytest.approx(0.5 + 0.5 * (0.9 * 1 + 2))


@pytest.mark.parametrize(
    ("kind", "second"),
    [
        ("adagrad", 0.01**2 + 4.0),
        ("adam", 0.99 * 0.01**2 + 0.01 * 4.0),
        ("yogi", 0.01**2 + 0.01 * 4.0),  # the square is above the moment: sign(v - change^2) = -1
    ],
)
def test_adaptive_servers_follow_algorithm_2_by_hand(kind, second):
    server = ServerOptimizer(kind, lr=0.1, momentum=0.9, tau=0.01)
    row, state = server(torch.tensor([1.0]), torch.tensor([3.0]), {})
    assert state["m"].item() == pytest.approx(0.2)
    assert state["v"].item() == pytest.approx(second, rel=1e-5)
    assert row.item() == pytest.approx(1 + 0.1 * 0.2 / (second**0.5 + 0.01), rel=1e-5)


def test_a_negative_rate_is_refused():
    with pytest.raises(FedloomError, match="server_optimizer: lr=-1: it must be above 0"):
        ServerOptimizer(lr=-1)
