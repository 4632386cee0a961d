"""FedProx: FedAvg without its term, its fixed point, and clients that did part of their work."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.training.batches import Assignment
from support.checkpoints import WORK, checkpoint_tensors, final_row
from support.quadratic import quadratic
from support.synthetic import SIZES, distance, small_task, train_all


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("work", [WORK, {**WORK, "momentum": 0.9, "clip": 1.0}], ids=["plain", "momentum and clip"])
def test_fedprox_without_its_term_is_fedavg_to_the_byte(tmp_path, execution, work):
    settings = {"execution": execution, "local": work, "selection": {"fraction": 0.5}}
    one = final_row(tmp_path / "avg", "fedavg", **settings)
    two = final_row(tmp_path / "prox", fl.FedProx(mu=0), **settings)
    assert one.numpy().tobytes() == two.numpy().tobytes()
    assert not torch.equal(one, final_row(tmp_path / "far", fl.FedProx(mu=1.0), **settings))


def test_clients_that_did_part_of_their_work_still_count(tmp_path):
    task, work = small_task(), LocalWork(epochs=4, batch_size=8, lr=0.1, partial=1.0)
    steps = [Assignment.of(client, task.federation.train[client], work, 3, 1).steps for client in range(4)]
    whole = [work.steps_for(size) for size in SIZES]
    assert all(1 <= some <= most for some, most in zip(steps, whole, strict=True))
    assert sum(steps) < sum(whole)
    history = fl.run(task, "fedprox", rounds=1, seed=3, local=work, out=tmp_path / "run", eval_every=0)
    assert history.records[-1]["steps"] == sum(steps)

    def pull(now, then):
        return 0.01 * (now - then)

    works = [replace(work, partial=0.0, steps=some) for some in steps]
    alone = torch.cat([train_all(task, "loop", one, [client], pull=pull) for client, one in enumerate(works)])
    shares = torch.tensor(SIZES) / sum(SIZES)
    assert distance((shares[:, None] * alone).sum(0), checkpoint_tensors(tmp_path / "run")["server/row"]) < 1e-5


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.slow
def test_fedprox_stops_at_its_own_fixed_point(tmp_path, execution):
    """A client goes from w to (ac + mu·w)/(a + mu); the mean of these is w where Σ a(c - w)/(a + mu) = 0."""
    mu, optima, curvatures = 0.5, [0.0, 6.0], [1.0, 2.0]
    pulls = [a / (a + mu) for a in curvatures]
    expected = sum(p * c for p, c in zip(pulls, optima, strict=True)) / sum(pulls)
    assert 3.0 < expected < 4.0  # between FedAvg's fixed point and the joint optimum
    task = quadratic(optima, curvatures)
    work = {"steps": 60, "batch_size": 0, "lr": 0.3}
    found = final_row(tmp_path / "run", fl.FedProx(mu=mu), task, rounds=40, local=work, execution=execution)
    assert found.item() == pytest.approx(expected, abs=1e-5)


def test_an_adaptive_mu_that_never_moves_is_a_fixed_one(tmp_path):
    fixed = final_row(tmp_path / "fixed", fl.FedProx(mu=0.3), rounds=1)
    assert distance(fixed, final_row(tmp_path / "adaptive", fl.FedProx(mu=0.3, adaptive=True), rounds=1)) < 1e-6


def test_a_negative_mu_is_refused():
    with pytest.raises(FedloomError, match="mu=-1: it must be at least 0"):
        fl.FedProx(mu=-1)
