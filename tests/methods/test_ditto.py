"""Ditto: FedAvg's shared model, personal models pulled towards it, and who predicts with what."""

from __future__ import annotations

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from support.checkpoints import check_executions_and_workers_agree, final, same
from support.quadratic import CURVATURES, OPTIMA, quadratic
from support.synthetic import cohort, distance, small_task


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_the_shared_model_of_ditto_is_fedavgs_to_the_byte(tmp_path, execution):
    settings = {"execution": execution, "selection": {"number": 2}}
    ditto = final(tmp_path / "ditto", fl.Ditto(lam=1.0), small_task(), **settings)
    plain = final(tmp_path / "plain", "fedavg", small_task(), **settings)
    assert same(ditto.server["row"], plain.server["row"])


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_ditto_without_its_pull_is_local_training(tmp_path, execution):
    """With whole batches the order of samples does not matter, so that both see the same data."""
    local = {"steps": 4, "batch_size": 0, "lr": 0.1}
    ditto = final(tmp_path / "ditto", fl.Ditto(lam=0), small_task(), local=local, execution=execution)
    alone = final(tmp_path / "alone", "local", small_task(), local=local, execution=execution)
    assert distance(alone.client_states.rows["row"], ditto.client_states.rows["v"]) < 1e-5
    pulled = final(tmp_path / "pulled", fl.Ditto(lam=3.0), small_task(), local=local, execution=execution)
    assert distance(alone.client_states.rows["row"], pulled.client_states.rows["v"]) > 1e-3


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_dittos_personal_models_stop_at_the_least_pulled_loss(tmp_path, execution):
    """w* is FedAvg's fixed point (one step: the joint optimum); v = argmin F_k(v) + lam/2 (v - w*)^2."""
    lam, local = 1.5, {"steps": 1, "batch_size": 0, "lr": 0.2}
    settings = {"rounds": 80, "checkpoint_every": 99, "local": local, "execution": execution}
    state = final(tmp_path / "run", fl.Ditto(lam=lam), quadratic(OPTIMA, CURVATURES), **settings)
    w = sum(a * c for a, c in zip(CURVATURES, OPTIMA, strict=True)) / sum(CURVATURES)
    expected = [(a * c + lam * w) / (a + lam) for a, c in zip(CURVATURES, OPTIMA, strict=True)]
    assert state.server["row"].item() == pytest.approx(w, abs=1e-5)
    assert state.client_states.rows["v"].flatten().tolist() == pytest.approx(expected, abs=1e-4)


def test_dittos_personal_model_may_train_longer():
    """From v = w one step on the pulled loss is ``v - lr a (v - c)``; each further one adds ``lam (v - w)``."""
    task, a, c, lam, lr = quadratic([6.0], [2.0]), 2.0, 6.0, 0.5, 0.1
    some = cohort(task, "loop", LocalWork(epochs=1, batch_size=0, lr=lr))
    fl.Ditto(lam=lam, personal_epochs=3).client_update(some, Message({"row": torch.zeros(1)}))
    v = 0.0
    for _ in range(3):
        v -= lr * (a * (v - c) + lam * v)
    assert some.kept["v"].rows.item() == pytest.approx(v, rel=1e-5)
    assert some.steps.tolist() == [1 + 3]
    assert some.after is not None
    assert torch.equal(some.after, some.kept["v"].rows)  # what is measured as the trained model


def test_clients_of_ditto_that_never_trained_predict_with_the_shared_model(tmp_path):
    state = final(tmp_path / "run", fl.Ditto(), small_task(), rounds=1, selection={"number": 2})
    has = state.client_states.has["v"].bool()
    some = cohort(small_task(), "vectorised", LocalWork())
    some.kept = state.client_states.read(list(range(4)))
    rows = fl.Ditto().weights_for(Message({"row": state.server["row"]}), some)
    assert torch.equal(rows[~has], state.server["row"].expand(2, -1))
    assert torch.equal(rows[has], state.client_states.rows["v"][has])


def test_impossible_settings_of_ditto_are_refused_with_a_sentence():
    with pytest.raises(FedloomError, match="lam=-1: it must be at least 0"):
        fl.Ditto(lam=-1)
    with pytest.raises(FedloomError, match="personal_epochs=0: it must be at least 1"):
        fl.Ditto(personal_epochs=0)


def test_executions_agree_and_two_workers_leave_the_same_bytes(tmp_path):
    check_executions_and_workers_agree(tmp_path, fl.Ditto())
