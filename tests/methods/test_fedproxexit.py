"""FedProxExit: its pull beside the optimiser, and the methods it becomes without it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import fedloom as fl
from fedloom.aggregation.mean import Mean
from fedloom.core.errors import FedloomError
from fedloom.core.message import Replies
from support.checkpoints import WORK, final, final_row
from support.quadratic import quadratic
from support.synthetic import distance

OPTIMA = [4.0, -2.0, 1.0, 7.0]


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_under_sgd_the_pull_beside_the_optimiser_is_fedprox(tmp_path, execution):
    exiting = fl.FedProxExit(tolerance=0, mu=0.7, adaptive=False)
    one = final_row(tmp_path / "a", exiting, execution=execution, rounds=4)
    assert distance(final_row(tmp_path / "b", fl.FedProx(mu=0.7), execution=execution, rounds=4), one) < 1e-5


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_without_its_pull_fedproxexit_is_fedavgexit(tmp_path, optimizer):
    how = {"local": {**WORK, "optimizer": optimizer, "lr": 0.02}, "rounds": 4}
    one = final_row(tmp_path / "a", fl.FedProxExit(mu=0, adaptive=False), **how)
    assert torch.equal(one, final_row(tmp_path / "b", fl.FedAvgExit(), **how))


def test_a_pull_of_one_over_the_learning_rate_leaves_only_the_last_step(tmp_path):
    """w <- w - (w_before - w_t) after a step is w_t plus that step: with c clients at quadratics, one step's worth."""
    task = quadratic(OPTIMA)
    work = {"epochs": 3, "lr": 0.25, "batch_size": 0}
    method = fl.FedProxExit(tolerance=0, mu=1 / 0.25, adaptive=False)
    row = final_row(tmp_path, method, task, local=work, rounds=1)
    # w0 = 0, w1 = s c, then w <- (w + s (c - w)) - (w - 0): again s c at c's distance from where it stands
    w = [0.0] * 4
    for _ in range(3):
        w = [v + 0.25 * (c - v) - v for v, c in zip(w, OPTIMA, strict=True)]
    assert float(row) == pytest.approx(sum(w) / 4, rel=1e-5)


def test_mu_starts_at_one_and_falls_after_five_falls_of_the_loss(tmp_path):
    state = final(tmp_path, fl.FedProxExit(tolerance=0), quadratic(OPTIMA), local={"lr": 0.1}, rounds=7)
    assert float(state.server["mu"]) == pytest.approx(0.9)  # six falls: five of them count once


def test_a_client_that_left_keeps_its_last_loss():
    """Client 0 left with a small loss. Client 1 alone has a larger one than both had together, and yet it fell."""
    method, task = fl.FedProxExit(tolerance=0.5), quadratic([4.0, -2.0])

    def answers(losses: dict[int, float], leaves: dict[int, bool]) -> Replies:
        count = len(losses)
        tensors = {"row": torch.zeros(count, 1), "loss": torch.tensor(list(losses.values()))}
        tensors["leaves"] = torch.tensor(list(leaves.values()))
        alike = torch.full((count,), 1 / count)
        context = SimpleNamespace(task=task, samples=task.federation.train.sizes)
        return Replies(list(losses), tensors, alike, alike, alike, alike, Mean(), 2, context)  # type: ignore[arg-type]

    state = method.aggregate(method.start(task), answers({0: 1.0, 1: 9.0}, {0: True, 1: False}))
    assert float(method.aggregate(state, answers({1: 8.0}, {1: False}))["mu"]) == 1.0
    assert float(method.aggregate(state, answers({1: 9.5}, {1: False}))["mu"]) == pytest.approx(1.1)


@pytest.mark.parametrize("settings", [{"tolerance": -1}, {"mu": -1}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(FedloomError, match=next(iter(settings))):
        fl.FedProxExit(**settings)
