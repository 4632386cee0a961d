"""Local training: nothing is sent, and each client keeps its own model."""

from __future__ import annotations

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from support.checkpoints import WORK, checkpoint_tensors, final_row
from support.synthetic import cohort, distance, federation, mlp, small_task, train_all

# -- everybody alone


def test_local_training_sends_nothing_and_keeps_a_row_per_client(tmp_path):
    task = small_task()
    history = fl.run(task, "local", rounds=1, seed=3, local=WORK, out=tmp_path / "run")
    assert history.total("bytes_up") == history.total("bytes_down") == 0
    kept = checkpoint_tensors(tmp_path / "run", "kept")
    assert kept["row/ids"].tolist() == [0, 1, 2, 3]
    assert distance(train_all(task, "vectorised", LocalWork(**WORK)), kept["row"]) < 1e-6
    assert checkpoint_tensors(tmp_path / "run").keys() == {"round"}


def test_a_client_alone_goes_on_from_its_own_row(tmp_path):
    task = Task("t", federation([33]), mlp())
    fl.run(task, "local", rounds=3, seed=3, local=WORK, out=tmp_path / "run", eval_every=0)
    assert torch.equal(
        checkpoint_tensors(tmp_path / "run", "kept")["row"][0], final_row(tmp_path / "avg", "fedavg", task)
    )


def test_clients_never_selected_predict_with_the_initial_row():
    task = small_task()
    history = fl.run(task, "local", rounds=2, seed=1, local=WORK, selection={"number": 1})
    chosen = {client for record in history.records for client in record["selected"]}
    before = cohort(task, "loop", LocalWork()).evaluate(task.initial_row().expand(4, -1))
    assert 0 < len(chosen) < 4
    for client in history.clients:
        same = client["loss"] == pytest.approx(float(before.mean_loss[client["client"]]), rel=1e-5)
        assert same == (client["client"] not in chosen)


def test_alone_no_model_is_shared_so_none_is_scored_on_the_global_test_set():
    metrics = fl.run(small_task(), "local", rounds=1, local=WORK).records[-1]["metrics"]
    assert not any(name.startswith("global_model") for name in metrics)
    assert "client_model/own_test/accuracy/mean" in metrics


def test_communal_labels_are_learned_after_the_clients_own_data():
    """The control of distillation: a client whose data are few gains from the labels of the communal set."""
    task = fl.task("digits", clients=5, alpha=0.1, communal=0.2)
    run = {"rounds": 1, "eval_every": 1, "clients_on_global": True, "local": {"epochs": 1, "batch_size": 16, "lr": 0.1}}
    alone, taught = (
        fl.run(task, method, **run).last("client_model/global_test/accuracy/mean")
        for method in (fl.Local(), fl.Local(communal_epochs=1))
    )
    assert taught > alone + 0.2


def test_communal_epochs_need_a_communal_set():
    with pytest.raises(FedloomError, match="local with communal_epochs needs samples"):
        fl.run(fl.task("digits", clients=3), fl.Local(communal_epochs=1), rounds=1)
