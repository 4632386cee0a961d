"""What federation is compared with: everybody alone, everything in one place, one gradient step per round."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from support.synthetic import cohort, distance, federation, mlp, trained

SIZES = [33, 9, 50, 20]
WORK = {"epochs": 2, "batch_size": 16, "lr": 0.1}


def small() -> Task:
    return Task("t", federation(SIZES), mlp())


def loaded(folder: Path, kind: str = "round") -> dict[str, torch.Tensor]:
    return load_file(sorted(folder.glob(f"checkpoints/{kind}-*.safetensors"))[-1])


def row(folder: Path, method, task: Task, **settings) -> torch.Tensor:
    fl.run(task, method, out=folder, **{"rounds": 3, "seed": 3, "local": WORK, "eval_every": 0, **settings})
    return loaded(folder)["server/row"]


def gradients(task: Task) -> torch.Tensor:
    """Each client's gradient of its mean loss at the initial row, by bare torch."""
    rows = []
    for client in range(task.federation.clients):
        model, positions = mlp().eval(), task.federation.train[client]
        F.cross_entropy(model(task.inputs(positions)), task.targets(positions)).backward()
        rows.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    return torch.stack(rows)


# -- centralised


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_one_client_with_all_data_is_centralised_to_the_byte(tmp_path, execution):
    task = small()
    alone = replace(task, federation=task.federation.as_one_client())
    assert torch.equal(alone.federation.train[0], task.federation.train.order)
    one = row(tmp_path / "one", "fedavg", alone, execution=execution)
    all_of_it = row(tmp_path / "all", "centralised", task, execution=execution)
    assert one.numpy().tobytes() == all_of_it.numpy().tobytes()
    assert not torch.equal(one, row(tmp_path / "four", "fedavg", task, execution=execution))


def test_centralised_training_sends_nothing_and_is_scored_on_everybodys_test_part():
    history = fl.run(small(), "centralised", rounds=2, local=WORK)
    assert history.total("bytes_up") == history.total("bytes_down") == 0
    assert [client["train"] for client in history.clients] == SIZES
    assert history.records[-1]["steps"] == 2 * 7  # two epochs of ⌈112 / 16⌉ batches
    assert not any(name.startswith(("received_model", "trained_model")) for name in history.records[-1]["metrics"])


# -- everybody alone


def test_local_training_sends_nothing_and_keeps_a_row_per_client(tmp_path):
    task = small()
    history = fl.run(task, "local", rounds=1, seed=3, local=WORK, out=tmp_path / "run")
    assert history.total("bytes_up") == history.total("bytes_down") == 0
    kept = loaded(tmp_path / "run", "kept")
    assert kept["row/ids"].tolist() == [0, 1, 2, 3]
    assert distance(trained(task, "vectorised", LocalWork(**WORK)), kept["row"]) < 1e-6
    assert loaded(tmp_path / "run").keys() == {"round"}


def test_a_client_alone_goes_on_from_its_own_row(tmp_path):
    task = Task("t", federation([33]), mlp())
    fl.run(task, "local", rounds=3, seed=3, local=WORK, out=tmp_path / "run", eval_every=0)
    assert torch.equal(loaded(tmp_path / "run", "kept")["row"][0], row(tmp_path / "avg", "fedavg", task))


def test_clients_never_selected_predict_with_the_initial_row():
    task = small()
    history = fl.run(task, "local", rounds=2, seed=1, local=WORK, selection={"number": 1})
    chosen = {client for record in history.records for client in record["selected"]}
    before = cohort(task, "loop", LocalWork()).evaluate(task.initial_row().expand(4, -1))
    assert 0 < len(chosen) < 4
    for client in history.clients:
        same = client["loss"] == pytest.approx(float(before.mean_loss[client["client"]]), rel=1e-5)
        assert same == (client["client"] not in chosen)


def test_alone_no_model_is_shared_so_none_is_scored_on_the_global_test_set():
    metrics = fl.run(small(), "local", rounds=1, local=WORK).records[-1]["metrics"]
    assert not any(name.startswith("global_model") for name in metrics)
    assert "client_model/own_test/accuracy/mean" in metrics


# -- one gradient step per round


@pytest.mark.parametrize(("by", "shares"), [("samples", [33, 9, 50, 20]), ("uniform", [1, 1, 1, 1])])
def test_fedsgd_steps_along_the_mean_gradient_weighted_as_asked(tmp_path, by, shares):
    task = small()
    weights = torch.tensor(shares) / sum(shares)
    expected = task.initial_row() - 0.1 * (weights @ gradients(task))
    found = row(tmp_path / "run", "fedsgd", task, rounds=1, weight_by=by)
    assert distance(expected - task.initial_row(), found - task.initial_row()) < 1e-5


def test_fedsgd_weighted_by_samples_is_a_step_of_gradient_descent_on_all_data(tmp_path):
    task = small()
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(task.inputs(torch.arange(112))), task.targets(torch.arange(112))).backward()
        optimizer.step()
    assert distance(task.layout.row(model), row(tmp_path / "run", "fedsgd", task)) < 1e-5


def test_fedavg_with_one_step_on_all_data_is_fedsgd_to_rounding(tmp_path):
    task, work = small(), {"steps": 1, "batch_size": 0, "lr": 0.1}
    one = row(tmp_path / "avg", "fedavg", task, local=work)
    assert distance(one, row(tmp_path / "sgd", "fedsgd", task, local=work)) < 1e-6


def test_selective_sgd_sends_the_entries_above_its_threshold_at_eight_bytes_each(tmp_path):
    task, theta = small(), 0.02
    sent = gradients(task).abs() > theta
    assert 0.05 < float(sent.float().mean()) < 0.95
    history = fl.run(
        task, fl.FedSGD(theta=theta), rounds=1, local=WORK, weight_by="uniform", out=tmp_path / "run", eval_every=0
    )
    assert history.records[-1]["bytes_up"] == 8 * int(sent.sum())
    step = 0.1 * (gradients(task) * sent).mean(0)
    moved = task.initial_row() - loaded(tmp_path / "run")["server/row"]
    assert torch.allclose(moved, step, atol=1e-6)
    assert torch.equal(moved == 0, ~sent.any(0))


def test_without_a_threshold_selective_sgd_is_fedsgd_with_whole_rows(tmp_path):
    task = small()
    plain = row(tmp_path / "plain", "fedsgd", task)
    assert torch.equal(plain, row(tmp_path / "zero", fl.FedSGD(theta=0.0), task))
    tiny = row(tmp_path / "tiny", fl.FedSGD(theta=1e-30), task)
    assert distance(plain, tiny) < 1e-6
    record = fl.run(task, "fedsgd", rounds=1, local=WORK, eval_every=0).records[-1]
    assert record["bytes_up"] == record["bytes_down"] == 4 * task.layout.width * 4
    assert record["steps"] == 4


def test_a_negative_threshold_is_refused():
    with pytest.raises(FedloomError, match="theta=-1: the threshold on gradient entries must not be negative"):
        fl.FedSGD(theta=-1)


def test_fedsgd_refuses_statistics_that_have_no_gradient():
    model = nn.Sequential(nn.Linear(20, 8), nn.BatchNorm1d(8), nn.Linear(8, 5))
    with pytest.raises(FedloomError, match="use GroupNorm, or fedavg"):
        fl.run(Task("t", federation([16, 16]), model), "fedsgd", rounds=1)


def test_fedsgd_decays_and_clips_like_a_local_step(tmp_path):
    task = Task("t", federation([30, 20]), nn.Linear(20, 5))
    local = {"steps": 1, "batch_size": 0, "weight_decay": 0.1, "clip": 0.05, "lr": 0.5}
    rows = [row(tmp_path / name, name, task, local=local) for name in ("fedsgd", "fedavg")]
    assert torch.allclose(*rows, atol=1e-6)
