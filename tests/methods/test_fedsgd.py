"""FedSGD: one gradient step per round, and selective SGD, which sends the large entries only."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from support.checkpoints import WORK, checkpoint_tensors, final_row
from support.synthetic import distance, federation, mlp, small_task


def gradients(task: Task) -> torch.Tensor:
    """Each client's gradient of its mean loss at the initial row, by bare torch."""
    rows = []
    for client in range(task.federation.clients):
        model, positions = mlp().eval(), task.federation.train[client]
        F.cross_entropy(model(task.inputs(positions)), task.targets(positions)).backward()
        rows.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    return torch.stack(rows)


@pytest.mark.parametrize(("by", "shares"), [("samples", [33, 9, 50, 20]), ("uniform", [1, 1, 1, 1])])
def test_fedsgd_steps_along_the_mean_gradient_weighted_as_asked(tmp_path, by, shares):
    task = small_task()
    weights = torch.tensor(shares) / sum(shares)
    expected = task.initial_row() - 0.1 * (weights @ gradients(task))
    found = final_row(tmp_path / "run", "fedsgd", task, rounds=1, weight_by=by)
    assert distance(expected - task.initial_row(), found - task.initial_row()) < 1e-5


def test_fedsgd_weighted_by_samples_is_a_step_of_gradient_descent_on_all_data(tmp_path):
    task = small_task()
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(task.inputs(torch.arange(112))), task.targets(torch.arange(112))).backward()
        optimizer.step()
    assert distance(task.layout.row(model), final_row(tmp_path / "run", "fedsgd", task)) < 1e-5


def test_fedavg_with_one_step_on_all_data_is_fedsgd_to_rounding(tmp_path):
    task, work = small_task(), {"steps": 1, "batch_size": 0, "lr": 0.1}
    one = final_row(tmp_path / "avg", "fedavg", task, local=work)
    assert distance(one, final_row(tmp_path / "sgd", "fedsgd", task, local=work)) < 1e-6


def test_selective_sgd_sends_the_entries_above_its_threshold_at_eight_bytes_each(tmp_path):
    task, theta = small_task(), 0.02
    sent = gradients(task).abs() > theta
    assert 0.05 < float(sent.float().mean()) < 0.95
    history = fl.run(
        task, fl.FedSGD(theta=theta), rounds=1, local=WORK, weight_by="uniform", out=tmp_path / "run", eval_every=0
    )
    assert history.records[-1]["bytes_up"] == 8 * int(sent.sum())
    step = 0.1 * (gradients(task) * sent).mean(0)
    moved = task.initial_row() - checkpoint_tensors(tmp_path / "run")["server/row"]
    assert torch.allclose(moved, step, atol=1e-6)
    assert torch.equal(moved == 0, ~sent.any(0))


def test_without_a_threshold_selective_sgd_is_fedsgd_with_whole_rows(tmp_path):
    task = small_task()
    plain = final_row(tmp_path / "plain", "fedsgd", task)
    assert torch.equal(plain, final_row(tmp_path / "zero", fl.FedSGD(theta=0.0), task))
    tiny = final_row(tmp_path / "tiny", fl.FedSGD(theta=1e-30), task)
    assert distance(plain, tiny) < 1e-6
    record = fl.run(task, "fedsgd", rounds=1, local=WORK, eval_every=0).records[-1]
    assert record["bytes_up"] == record["bytes_down"] == 4 * task.layout.width * 4
    assert record["steps"] == 4


def test_a_negative_threshold_is_refused():
    with pytest.raises(FedloomError, match="theta=-1: it must be at least 0"):
        fl.FedSGD(theta=-1)


def test_fedsgd_refuses_statistics_that_have_no_gradient():
    model = nn.Sequential(nn.Linear(20, 8), nn.BatchNorm1d(8), nn.Linear(8, 5))
    with pytest.raises(FedloomError, match="use GroupNorm, or fedavg"):
        fl.run(Task("t", federation([16, 16]), model), "fedsgd", rounds=1)


def test_fedsgd_decays_and_clips_like_a_local_step(tmp_path):
    task = Task("t", federation([30, 20]), nn.Linear(20, 5))
    local = {"steps": 1, "batch_size": 0, "weight_decay": 0.1, "clip": 0.05, "lr": 0.5}
    rows = [final_row(tmp_path / name, name, task, local=local) for name in ("fedsgd", "fedavg")]
    assert torch.allclose(*rows, atol=1e-6)
