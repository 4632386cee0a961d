"""Clients that leave: identities with FedAvg and FedProx, who leaves when, and what their models still do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from support.synthetic import distance, federation, mlp, quadratic

SIZES = [33, 9, 50, 20]
WORK = {"epochs": 2, "batch_size": 16, "lr": 0.1}
OPTIMA = [4.0, -2.0, 1.0, 7.0]


def small() -> Task:
    return Task("t", federation(SIZES), mlp())


def final(folder: Path, method, task: Task | None = None, **settings) -> dict[str, torch.Tensor]:
    settings = {"rounds": 4, "seed": 3, "local": WORK, **settings}
    fl.run(task or small(), method, out=folder, **settings)
    (last,) = folder.glob("checkpoints/round-*.safetensors")
    return load_file(last)


# -- identities


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("optimizer", [{}, {"optimizer": "adam", "lr": 0.01}], ids=["sgd", "adam"])
def test_fedavg_from_which_nobody_leaves_is_fedavg(tmp_path, execution, optimizer):
    how = {"execution": execution, "local": {**WORK, **optimizer}}
    one = final(tmp_path / "a", fl.FedAvgExit(tolerance=0), **how)["server/row"]
    assert distance(final(tmp_path / "b", "fedavg", **how)["server/row"], one) < 1e-6


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_under_sgd_the_pull_beside_the_optimiser_is_fedprox(tmp_path, execution):
    exiting = fl.FedProxExit(tolerance=0, mu=0.7, adaptive=False)
    one = final(tmp_path / "a", exiting, execution=execution)["server/row"]
    assert distance(final(tmp_path / "b", fl.FedProx(mu=0.7), execution=execution)["server/row"], one) < 1e-5


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_without_its_pull_fedproxexit_is_fedavgexit(tmp_path, optimizer):
    how = {"local": {**WORK, "optimizer": optimizer, "lr": 0.02}}
    one = final(tmp_path / "a", fl.FedProxExit(mu=0, adaptive=False), **how)["server/row"]
    assert torch.equal(one, final(tmp_path / "b", fl.FedAvgExit(), **how)["server/row"])


def test_a_pull_of_one_over_the_learning_rate_leaves_only_the_last_step(tmp_path):
    """w <- w - (w_before - w_t) after a step is w_t plus that step: with c clients at quadratics, one step's worth."""
    task = quadratic(OPTIMA)
    work = {"epochs": 3, "lr": 0.25, "batch_size": 0}
    method = fl.FedProxExit(tolerance=0, mu=1 / 0.25, adaptive=False)
    row = final(tmp_path, method, task, local=work, rounds=1)["server/row"]
    # w0 = 0, w1 = s c, then w <- (w + s (c - w)) - (w - 0): again s c at c's distance from where it stands
    w = [0.0] * 4
    for _ in range(3):
        w = [v + 0.25 * (c - v) - v for v, c in zip(w, OPTIMA, strict=True)]
    assert float(row) == pytest.approx(sum(w) / 4, rel=1e-5)


# -- who leaves


def test_a_client_leaves_when_its_loss_stands_still_and_its_model_stays_in_the_average(tmp_path):
    """Quadratics by hand: w_k = w + s (c_k - w), loss (w_k - c_k)²/2; a client leaves when that changed by < 0.5."""
    s, tolerance, rounds = 0.5, 0.5, 6
    state = final(tmp_path, fl.FedAvgExit(tolerance=tolerance), quadratic(OPTIMA), local={"lr": s}, rounds=rounds)
    w, models, losses, left = 0.0, [0.0] * 4, [float("inf")] * 4, [False] * 4
    for _ in range(rounds):
        if all(left):
            break
        for k, c in enumerate(OPTIMA):
            if not left[k]:
                models[k] = w + s * (c - w)
                loss = (models[k] - c) ** 2 / 2
                left[k], losses[k] = abs(loss - losses[k]) < tolerance, loss
        w = sum(models) / 4
    assert any(left)
    assert state["server/left"].tolist() == left
    assert float(state["server/row"]) == pytest.approx(w, rel=1e-5)
    assert state["server/models"].flatten().tolist() == pytest.approx(models, rel=1e-5)


def test_a_run_ends_when_everybody_has_left_and_says_what_the_last_round_scored(tmp_path):
    history = fl.run(small(), fl.FedAvgExit(tolerance=100), rounds=50, local=WORK, eval_every=10, out=tmp_path)
    assert history.records[-1]["round"] == 2  # the first round has no loss to compare with
    assert "client_model/own_test/accuracy/mean" in history.records[-1]["metrics"]
    assert history.stopped is None
    again = fl.resume(tmp_path, task=small(), method=fl.FedAvgExit(tolerance=100))
    assert again.records == history.records


def test_who_has_left_is_sent_nothing():
    history = fl.run(quadratic([0.0, 0.0, 9.0]), fl.FedAvgExit(tolerance=0.3), rounds=5, local={"lr": 0.3})
    sent = [record["bytes_down"] for record in history.records[1:]]
    assert sent[0] == 3 * 4
    assert sent[-1] < sent[0]
    assert [len(record["selected"]) for record in history.records[1:]] == [bytes_ // 4 for bytes_ in sent]


@pytest.mark.parametrize("method", [fl.FedAvgExit(tolerance=0.05), fl.FedProxExit(tolerance=0.05)])
def test_leaving_gives_the_same_bytes_with_two_workers(tmp_path, method):
    one = final(tmp_path / "one", method, workers=1, rounds=6)
    two = final(tmp_path / "two", method, workers=2, rounds=6)
    assert bool(one["server/left"].any())
    assert all(torch.equal(one[name], two[name]) for name in one)


# -- weights and mu


def test_weights_count_labels_and_all_that_clients_hold(tmp_path):
    from dataclasses import replace

    task = quadratic(OPTIMA)
    held = replace(task.federation, counted=torch.tensor([1, 2, 3, 4]))
    row = final(
        tmp_path,
        fl.FedAvgExit(tolerance=0, weights="samples-points"),
        replace(task, federation=held),
        local={"lr": 0.5},
        rounds=1,
    )["server/row"]
    assert float(row) == pytest.approx(sum(n * 0.5 * c for n, c in zip([1, 2, 3, 4], OPTIMA, strict=True)) / 10)


def test_mu_starts_at_one_and_falls_after_five_falls_of_the_loss(tmp_path):
    state = final(tmp_path, fl.FedProxExit(tolerance=0), quadratic(OPTIMA), local={"lr": 0.1}, rounds=7)
    assert float(state["server/mu"]) == pytest.approx(0.9)  # six falls: five of them count once


@pytest.mark.parametrize("settings", [{"tolerance": -1}, {"mu": -1}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(FedloomError, match=next(iter(settings))):
        fl.FedProxExit(**settings)
