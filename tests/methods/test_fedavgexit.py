"""FedAvgExit: who leaves when, and what the models of those who left still do."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from support.checkpoints import WORK, final, final_row
from support.quadratic import quadratic
from support.synthetic import distance, small_task

OPTIMA = [4.0, -2.0, 1.0, 7.0]

# -- identities


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("optimizer", [{}, {"optimizer": "adam", "lr": 0.01}], ids=["sgd", "adam"])
def test_fedavg_from_which_nobody_leaves_is_fedavg(tmp_path, execution, optimizer):
    how = {"execution": execution, "local": {**WORK, **optimizer}, "rounds": 4}
    one = final_row(tmp_path / "a", fl.FedAvgExit(tolerance=0), **how)
    assert distance(final_row(tmp_path / "b", "fedavg", **how), one) < 1e-6


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
    assert state.server["left"].tolist() == left
    assert float(state.server["row"]) == pytest.approx(w, rel=1e-5)
    assert state.server["models"].flatten().tolist() == pytest.approx(models, rel=1e-5)


def test_a_run_ends_when_everybody_has_left_and_says_what_the_last_round_scored(tmp_path):
    history = fl.run(small_task(), fl.FedAvgExit(tolerance=100), rounds=50, local=WORK, eval_every=10, out=tmp_path)
    assert history.records[-1]["round"] == 2  # the first round has no loss to compare with
    assert "client_model/own_test/accuracy/mean" in history.records[-1]["metrics"]
    assert history.stopped is None
    again = fl.resume(tmp_path, task=small_task(), method=fl.FedAvgExit(tolerance=100))
    assert again.records == history.records


def test_who_has_left_is_sent_nothing():
    history = fl.run(quadratic([0.0, 0.0, 9.0]), fl.FedAvgExit(tolerance=0.3), rounds=5, local={"lr": 0.3})
    sent = [record["bytes_down"] for record in history.records[1:]]
    assert sent[0] == 3 * 4
    assert sent[-1] < sent[0]
    assert [len(record["selected"]) for record in history.records[1:]] == [bytes_ // 4 for bytes_ in sent]


@pytest.mark.parametrize("method", [fl.FedAvgExit(tolerance=0.05), fl.FedProxExit(tolerance=0.05)])
def test_leaving_gives_the_same_bytes_with_two_workers(tmp_path, method):
    one = final(tmp_path / "one", method, workers=1, rounds=6).server
    two = final(tmp_path / "two", method, workers=2, rounds=6).server
    assert bool(one["left"].any())
    assert all(torch.equal(one[name], two[name]) for name in one)


# -- weights and mu


def test_weights_count_labels_and_all_that_clients_hold(tmp_path):
    task = quadratic(OPTIMA)
    held = replace(task.federation, counted=torch.tensor([1, 2, 3, 4]))
    row = final_row(
        tmp_path,
        fl.FedAvgExit(tolerance=0, weights="samples-points"),
        replace(task, federation=held),
        local={"lr": 0.5},
        rounds=1,
    )
    assert float(row) == pytest.approx(sum(n * 0.5 * c for n, c in zip([1, 2, 3, 4], OPTIMA, strict=True)) / 10)


def test_a_negative_tolerance_is_refused():
    with pytest.raises(FedloomError, match="tolerance"):
        fl.FedAvgExit(tolerance=-1)
