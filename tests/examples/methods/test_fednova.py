"""FedNova: FedAvg for equal steps, the true optimum for unequal ones, and the norm of momentum's gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedloom.conformance.quadratics import Quadratics
from fedloom.conformance.run_method import run_method
from fedloom.core.errors import FedloomError
from fedloom.methods.fedavg import FedAvg
from support.example_methods import MOST_LINES, code_lines, example, failed_claims

METHOD = example("fednova", "FedNova")
COPIES = (1, 2, 6)
ONE_BY_ONE = {"batch_size": 1, "epochs": 2}
"""Of equal samples, so that every step has the client's whole gradient, and a client takes 2 * copies steps."""


def problem() -> Quadratics:
    """Three clients in one dimension with other curvatures and optima: unequal numbers of samples, so of steps."""
    return Quadratics(np.array([[[1.0]], [[3.0]], [[2.0]]]), np.array([[5.0], [-1.0], [2.0]]), COPIES)


def settled(method, lr, momentum=0.0, rounds=40):
    work = {**ONE_BY_ONE, "lr": lr, "momentum": momentum}
    return float(run_method(problem().task(), method, rounds, work).row)


def fixed_point(lr, normalise):
    """Where ``sum_i p_i (1 - (1 - lr a_i)^t_i) / t_i (m_i - w) = 0``; without the division it is FedAvg's."""
    given = problem()
    steps = 2 * np.array(COPIES)
    shrinks = 1 - (1 - lr * given.curvatures[:, 0, 0]) ** steps
    pulls = given.weights * shrinks / (steps if normalise else 1)
    return float(pulls @ given.optima[:, 0] / pulls.sum())


def test_it_stops_at_the_fixed_point_of_normalised_averaging():
    assert settled(METHOD, 0.05) == pytest.approx(fixed_point(0.05, True), rel=1e-5)
    assert settled(FedAvg(), 0.05) == pytest.approx(fixed_point(0.05, False), rel=1e-5)


def test_with_small_steps_it_is_at_the_optimum_where_fedavg_is_biased():
    optimum = float(problem().optimum[0])
    far = [abs(fixed_point(lr, True) - optimum) for lr in (1e-2, 1e-3)]
    assert far[1] < 0.11 * far[0]  # its distance goes to zero with the learning rate, as lr does
    assert abs(fixed_point(1e-3, False) - optimum) > 50 * far[1]  # FedAvg's does not
    assert settled(METHOD, 1e-2, rounds=80) == pytest.approx(optimum, abs=2 * far[0])


def test_with_equal_steps_it_is_fedavg():
    task = Quadratics.random().task()
    work = {"lr": 0.1, "steps": 5, "batch_size": 0, "momentum": 0.5}
    rows = [run_method(task, method, 3, work).row for method in (METHOD, FedAvg())]
    assert torch.allclose(*rows, rtol=1e-5)


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_the_norm_is_the_sum_of_the_gradients_weights(rho):
    """With a constant gradient g a client moves by lr * |a|_1 * g, so all clients send the same direction."""
    for steps in (1, 2, 7):
        moved = momentum = 0.0
        for _ in range(steps):
            momentum = rho * momentum + 1
            moved += momentum
        assert moved == pytest.approx((steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho))


@pytest.mark.slow
def test_with_momentum_it_still_finds_the_optimum_and_adam_is_refused():
    optimum = float(problem().optimum[0])
    bias = abs(settled(FedAvg(), 5e-3, momentum=0.5, rounds=80) - optimum)
    assert abs(settled(METHOD, 5e-3, momentum=0.5, rounds=80) - optimum) < 0.1 * bias
    with pytest.raises(FedloomError, match="fednova's norm is for SGD"):
        run_method(problem().task(), METHOD, 1, {"optimizer": "adam"})


@pytest.mark.slow
def test_conform_holds_and_it_is_short():
    assert failed_claims(METHOD, like="fedavg") == []
    assert code_lines("fednova") <= MOST_LINES
