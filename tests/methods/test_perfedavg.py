"""Per-FedAvg: FedAvg without its step, where it stops on quadratics, and what clients predict with."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.core.task import Task
from support.checkpoints import check_executions_and_workers_agree, final, same
from support.quadratic import CURVATURES, OPTIMA, balance_point, final_on_quadratic, quadratic
from support.synthetic import cohort, distance, federation, mlp, small_task


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize(("order", "parts"), [("first", 2), ("hessian-free", 3)])
def test_perfedavg_without_a_step_of_its_own_is_fedavg_where_batches_are_used_whole(tmp_path, execution, order, parts):
    """With alpha = 0 only D' counts, and a batch that is too small to be dealt is D' itself."""
    task = Task("t", federation([parts - 1] * 3), mlp())
    settings = {"local": {"epochs": 3, "batch_size": parts - 1, "lr": 0.1}, "execution": execution}
    meta = final(tmp_path / "meta", fl.PerFedAvg(alpha=0, order=order), task, **settings)
    plain = final(tmp_path / "plain", "fedavg", task, **settings)
    assert distance(plain.server["row"], meta.server["row"]) < 1e-5
    other = final(tmp_path / "other", fl.PerFedAvg(alpha=0.3, order=order), task, **settings)
    assert distance(plain.server["row"], other.server["row"]) > 1e-3


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_perfedavg_stops_at_the_least_loss_after_one_step(tmp_path, execution):
    """``F_k(w - alpha F_k'(w)) = a/2 (1 - alpha a)^2 (w - c)^2``; a difference of gradients is exact here."""
    found = final_on_quadratic(
        tmp_path / "run", fl.PerFedAvg(alpha=0.15, order="hessian-free", delta=0.1), execution=execution
    )
    expected = balance_point([a * (1 - 0.15 * a) ** 2 for a in CURVATURES])
    assert found.server["row"].item() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_first_order_perfedavg_stops_elsewhere_for_want_of_the_hessian(tmp_path, execution):
    """Its step is ``a (1 - alpha a) (w - c)``: one factor less."""
    found = final_on_quadratic(tmp_path / "run", fl.PerFedAvg(alpha=0.15), execution=execution)
    expected = balance_point([a * (1 - 0.15 * a) for a in CURVATURES])
    assert found.server["row"].item() == pytest.approx(expected, abs=1e-5)
    exact = balance_point([a * (1 - 0.15 * a) ** 2 for a in CURVATURES])
    joint = balance_point(CURVATURES)  # FedAvg's
    assert min(abs(expected - exact), abs(expected - joint), abs(exact - joint)) > 0.05


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_perfedavg_predicts_after_one_step_on_all_of_a_clients_training_data(execution):
    task = small_task()
    row = task.initial_row()
    some = cohort(task, execution, LocalWork())
    tuned = fl.PerFedAvg(alpha=0.2).weights_for(Message({"row": row}), some)
    for client in range(4):
        model, positions = mlp(), task.federation.train[client]
        loss = F.cross_entropy(model(task.inputs(positions)), task.targets(positions))
        gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
        assert distance(row - 0.2 * gradient, tuned[client]) < 1e-5


def test_predicting_does_not_change_what_perfedavg_trains(tmp_path):
    scored, silent = (final(tmp_path / str(n), fl.PerFedAvg(), small_task(), eval_every=n) for n in (1, 0))
    assert same(scored.server["row"], silent.server["row"])


def test_a_new_client_is_scored_after_a_step_of_its_own(tmp_path):
    """On a quadratic the step from w is ``w - alpha a (w - c)``, and the loss there is known."""
    task = quadratic(OPTIMA, CURVATURES)
    history = fl.run(
        task,
        fl.PerFedAvg(alpha=0.15),
        rounds=2,
        local={"steps": 1, "batch_size": 0, "lr": 0.1},
        new_clients=1,
        out=tmp_path / "run",
    )
    assert history.row is not None
    for client in history.clients:
        c, a = OPTIMA[client["client"]], CURVATURES[client["client"]]
        left = (1 - 0.15 * a) * (history.row.item() - c)
        assert client["loss"] == pytest.approx(a / 2 * left**2, rel=1e-4)
    assert sum(client["group"] == "new" for client in history.clients) == 1


@pytest.mark.parametrize("order", ["first", "hessian-free"])
def test_executions_agree_and_two_workers_leave_the_same_bytes(tmp_path, order):
    check_executions_and_workers_agree(tmp_path, fl.PerFedAvg(alpha=0.1, order=order))


def test_impossible_settings_are_refused_with_a_sentence():
    with pytest.raises(FedloomError, match="alpha=-1: it must be at least 0"):
        fl.PerFedAvg(alpha=-1)
    with pytest.raises(FedloomError, match="delta=0: it must be above 0"):
        fl.PerFedAvg(delta=0)
    with pytest.raises(FedloomError, match="order='second': it must be 'first' or 'hessian-free'"):
        fl.PerFedAvg(order="second")
