"""q-FFL: FedAvg for q = 0, the paper's formula in float64, and a fairer model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedloom.conformance.quadratics import LR, Quadratics
from fedloom.conformance.run_method import run_method
from fedloom.methods.fedavg import FedAvg
from support.example_methods import MOST_LINES, code_lines, example, failed_claims

PROBLEM = Quadratics.random()


def work(steps):
    return {"lr": LR, "steps": steps, "batch_size": 0}


def losses(w):
    away = w - PROBLEM.optima
    return 0.5 * np.einsum("ki,kij,kj->k", away, PROBLEM.curvatures, away)


def paper_round(w, q, steps, weights):
    """One round of q-FedAvg in double precision, as Algorithm 2 of the paper has it."""
    local = np.stack([one(w) for one in PROBLEM.local(steps)])
    change, lipschitz, before = (w - local) / LR, 1 / LR, losses(w)
    h = q * before ** (q - 1) * (change**2).sum(1) + lipschitz * before**q
    return w - (weights * before**q) @ change / (weights @ h)


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("q", [0.5, 1.0, 3.0])
def test_its_rounds_are_the_papers(q, steps):
    expected = np.zeros(3)
    for _ in range(3):
        expected = paper_round(expected, q, steps, np.ones(5))
    found = run_method(PROBLEM.task(), example("qffl", "QFFL", q=q), 3, work(steps), weight_by="uniform").row
    assert np.allclose(found.numpy(), expected, rtol=1e-4)


def test_with_one_local_step_it_is_q_fed_sgd():
    w, q = np.array([1.0, -1.0, 0.5]), 2.0
    gradients = np.einsum("kij,kj->ki", PROBLEM.curvatures, w - PROBLEM.optima)
    h = q * losses(w) ** (q - 1) * (gradients**2).sum(1) + losses(w) ** q / LR
    assert np.allclose(paper_round(w, q, 1, np.ones(5)), w - (losses(w) ** q) @ gradients / h.sum())


def test_with_q_zero_it_is_fedavg():
    rows = [run_method(PROBLEM.task(), m, 3, work(5)).row for m in (example("qffl", "QFFL", q=0), FedAvg())]
    assert torch.allclose(*rows, rtol=1e-5)


def test_a_larger_q_makes_the_worst_client_better():
    worst = [
        losses(run_method(PROBLEM.task(), example("qffl", "QFFL", q=q), 60, work(1)).row.double().numpy()).max()
        for q in (0.0, 1.0, 5.0)
    ]
    assert worst[0] > 1.02 * worst[1] > 1.04 * worst[2]


@pytest.mark.slow
def test_conform_holds_and_it_is_short():
    assert failed_claims(example("qffl", "QFFL")) == []
    assert failed_claims(example("qffl", "QFFL", q=0), like="fedavg") == []
    assert code_lines("qffl") <= MOST_LINES
