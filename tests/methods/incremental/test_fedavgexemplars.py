"""FedAvg with exemplars: what clients train on beside their own samples, and what it is without a stream."""

from __future__ import annotations

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.runs.folder.checkpoint import load_checkpoint
from support.synthetic import cohort, small_task

STREAM = {"tasks": 5, "rounds": 1, "order": list(range(10))}


def test_without_a_stream_it_is_fedavg():
    task = fl.task("digits", clients=3, communal=0.2, model_options={"hidden": [8]})
    runs = [fl.run(task, method, rounds=2) for method in (fl.FedAvg(), fl.FedAvgExemplars())]
    assert torch.equal(runs[0].row, runs[1].row)


def test_the_exemplars_are_of_earlier_classes_and_equally_many_of_each(tmp_path):
    task = fl.task("digits", clients=3, partition="iid", communal=0.2, stream=STREAM)
    fl.run(task, fl.FedAvgExemplars(exemplars=12), rounds=3, out=tmp_path / "run")
    server = load_checkpoint(tmp_path / "run", 3).server
    now = task.at(3).federation
    y = now.columns["y"][now.communal[server["samples"].long()]]
    assert torch.bincount(y).tolist() == [3, 3, 3, 3]
    assert server["seen"].tolist() == list(range(6))


def test_a_sample_that_was_left_out_does_not_come_back(tmp_path):
    task = fl.task("digits", clients=3, partition="iid", communal=0.2, stream=STREAM)
    kept = []
    for rounds in (2, 3):
        fl.run(task, fl.FedAvgExemplars(exemplars=12), rounds=rounds, out=tmp_path / str(rounds))
        kept.append(load_checkpoint(tmp_path / str(rounds), rounds).server["positions"])
    sooner, later = kept
    first = task.targets(later) < 2
    assert int(first.sum()) == 6
    assert bool(torch.isin(later[first], sooner).all())


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_samples_beside_ones_own_are_trained_on(execution):
    """Training client 1 with those of client 3 beside its own is one full step on both together."""
    task = small_task()
    some = cohort(task, execution, LocalWork(steps=1, batch_size=0, lr=0.1), [1])
    rows, also = task.initial_row().unsqueeze(0), task.federation.train[3]
    both = torch.cat([task.federation.train[1], also])
    gradient = some.trainer.gradients(rows, [both], some.setting.work)
    assert torch.allclose(some.train(rows, also=also), rows - 0.1 * gradient, atol=1e-6)


def test_it_forgets_less_than_fedavg():
    task = fl.task("digits", clients=3, partition="iid", communal=0.2, stream=STREAM)
    name = "global_model/global_test/forgetting"
    runs = [fl.run(task, method, rounds=5) for method in (fl.FedAvg(), fl.FedAvgExemplars(exemplars=60))]
    assert runs[1].last(name) < 0.7 * runs[0].last(name)


def test_what_it_cannot_use_is_refused():
    with pytest.raises(FedloomError, match="exemplars=0: it must be at least 1"):
        fl.FedAvgExemplars(exemplars=0)
    with pytest.raises(FedloomError, match="exemplars=9: give at least one for each of 10 classes"):
        fl.run(fl.task("digits", clients=3, communal=0.2, stream=STREAM), fl.FedAvgExemplars(exemplars=9), rounds=1)
    blind = fl.task("digits", clients=3, communal={"share": 0.2, "labelled": False}, stream=STREAM)
    with pytest.raises(FedloomError, match="have no labels: leave labelled = false out"):
        fl.run(blind, fl.FedAvgExemplars(), rounds=1)
    with pytest.raises(
        FedloomError, match=r"needs samples that the server and all clients have, .* set task\.communal"
    ):
        fl.run(fl.task("digits", clients=3), fl.FedAvgExemplars(), rounds=1)
