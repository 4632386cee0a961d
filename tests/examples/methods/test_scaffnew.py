"""Scaffnew: its variates sum to zero, it finds the optimum, and with p = 1 it is gradient descent."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedloom.conformance.claim import settle
from fedloom.conformance.quadratics import LR, Quadratics, relative
from fedloom.conformance.run_method import run_method
from fedloom.methods.fedavg import FedAvg
from support.example_methods import MOST_LINES, code_lines, example, failed_claims

PROBLEM = Quadratics.random()


def play(p, rounds):
    return settle(example("scaffnew", "Scaffnew", p=p), PROBLEM, rounds)


def test_it_reaches_the_optimum_where_fedavg_does_not():
    assert relative(play(0.2, 60).row, PROBLEM.optimum) < 1e-4
    assert relative(settle(FedAvg(), PROBLEM).row, PROBLEM.optimum) > 1e-2


@pytest.mark.parametrize("weight_by", ["samples", "uniform"])
def test_its_control_variates_sum_to_zero(weight_by):
    run = settle(example("scaffnew", "Scaffnew", p=0.3), PROBLEM, 6, weight_by=weight_by)
    h = run.state.client_states.rows["h"]
    weights = torch.tensor(PROBLEM.weights).float() if weight_by == "samples" else torch.full((5,), 0.2)
    assert float((weights @ h).norm() / h.norm()) < 1e-5
    assert float(h.norm()) > 1


def test_its_variates_become_the_gradients_at_the_optimum():
    h = play(0.2, 60).state.client_states.rows["h"]
    gradients = np.einsum("kij,kj->ki", PROBLEM.curvatures, PROBLEM.optimum - PROBLEM.optima)
    assert relative(h, gradients) < 1e-3


def test_with_p_near_one_every_round_is_a_step_of_gradient_descent():
    w = np.zeros(3)
    for _ in range(4):
        w = w - LR * np.einsum("k,kij,kj->i", PROBLEM.weights, PROBLEM.curvatures, w - PROBLEM.optima)
    assert relative(play(0.9999999, 4).row, w) < 1e-5


def test_clients_throw_one_coin_and_its_number_of_steps_is_geometric():
    task, work = PROBLEM.task(), {"lr": 0.001, "batch_size": 0}
    records = run_method(task, example("scaffnew", "Scaffnew", p=0.25), 120, work).records
    steps = np.array([record["steps"] for record in records])
    assert (steps % 5 == 0).all()  # five clients, the same number each
    draws = steps / 5
    assert draws.mean() == pytest.approx(4, abs=3 * np.sqrt(12 / 120))  # mean 1/p, variance (1 - p) / p^2
    assert np.mean(draws == 1) == pytest.approx(0.25, abs=0.12)


@pytest.mark.slow
def test_conform_holds_and_it_is_short():
    assert failed_claims(example("scaffnew", "Scaffnew")) == []
    assert code_lines("scaffnew") <= MOST_LINES
