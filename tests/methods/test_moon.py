"""MOON: its loss by hand, FedAvg without its term, and the same units dropped in all models compared."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.core.task import Task
from fedloom.models import build
from fedloom.training.batches import Assignment
from support.checkpoints import check_executions_and_workers_agree, final
from support.synthetic import SIZES, Branching, cohort, distance, federation, mlp, mlp_features, perturb, small_task


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_moon_without_its_term_is_fedavg(tmp_path, execution):
    settings = {"execution": execution, "selection": {"number": 3}}
    moon = final(tmp_path / "moon", fl.MOON(mu=0), small_task(), **settings)
    plain = final(tmp_path / "plain", "fedavg", small_task(), **settings)
    assert distance(plain.server["row"], moon.server["row"]) < 1e-5
    other = final(tmp_path / "other", fl.MOON(mu=5.0), small_task(), **settings)
    assert distance(plain.server["row"], other.server["row"]) > 1e-4


def test_the_first_round_of_moon_is_fedavgs(tmp_path):
    """A client without a last model compares the received one with itself: the term is constant."""
    moon = final(tmp_path / "moon", fl.MOON(mu=5.0), small_task(), rounds=1)
    plain = final(tmp_path / "plain", "fedavg", small_task(), rounds=1)
    assert distance(plain.server["row"], moon.server["row"]) < 1e-5


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_step_of_moon_is_the_gradient_of_the_papers_loss(execution):
    task, work = small_task(), LocalWork(epochs=1, batch_size=16, lr=0.1)
    received, last = task.initial_row(), torch.stack([perturb(task.initial_row(), k) for k in range(4)])
    some = cohort(task, execution, work)
    some.keep("last", last)
    reply = fl.MOON(mu=2.0, temperature=0.7).client_update(some, Message({"row": received}))
    for client in range(4):
        row = received.clone()
        for positions in Assignment.of(client, task.federation.train[client], work, 3, 1):
            x, y, now = task.inputs(positions), task.targets(positions), row.clone().requires_grad_()
            z, near, far = (mlp_features(task, w, x) for w in (now, received, last[client]))
            towards = torch.exp(F.cosine_similarity(z, near) / 0.7)
            away = torch.exp(F.cosine_similarity(z, far) / 0.7)
            head = task.layout.views(now)
            outputs = z @ head["4.weight"].t() + head["4.bias"]
            loss = F.cross_entropy(outputs, y) - 2.0 * torch.log(towards / (towards + away)).mean()
            row = row - 0.1 * torch.autograd.grad(loss, now)[0]
        assert distance(row, reply.tensors["row"][client]) < 1e-5
        assert torch.equal(some.kept["last"].rows[client], reply.tensors["row"][client])


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_with_a_projection_head_moon_compares_projections_instead_of_features(execution):
    method, work = fl.MOON(mu=2.0, temperature=0.7, projection=6), LocalWork(steps=1, batch_size=0, lr=0.1)
    task = method.adapt_task(small_task())
    received, last = task.initial_row(), torch.stack([perturb(task.initial_row(), k) for k in range(4)])
    some = cohort(task, execution, work)
    some.keep("last", last)
    reply = method.client_update(some, Message({"row": received}))

    def parts(row: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        t = task.layout.views(row)
        hidden = F.relu(F.linear(x, t["model.1.weight"], t["model.1.bias"]))
        inside = F.relu(F.linear(hidden, t["projection.0.weight"], t["projection.0.bias"]))
        outputs = F.linear(hidden, t["model.4.weight"], t["model.4.bias"])
        return outputs, F.linear(inside, t["projection.2.weight"], t["projection.2.bias"])

    for client in range(4):
        positions, now = task.federation.train[client], received.clone().requires_grad_()
        x, y = task.inputs(positions), task.targets(positions)
        (outputs, z), (_, near), (_, far) = (parts(row, x) for row in (now, received, last[client]))
        towards, away = (torch.exp(F.cosine_similarity(z, other) / 0.7) for other in (near, far))
        loss = F.cross_entropy(outputs, y) - 2.0 * torch.log(towards / (towards + away)).mean()
        wanted = received - 0.1 * torch.autograd.grad(loss, now)[0]
        assert distance(wanted, reply.tensors["row"][client]) < 1e-5


def test_moon_keeps_what_each_client_trained_last(tmp_path):
    state = final(tmp_path / "run", fl.MOON(), small_task(), rounds=1, weight_by="uniform")
    assert distance(state.client_states.rows["last"].mean(0), state.server["row"]) < 1e-6


@pytest.mark.parametrize("model", [lambda: mlp(dropout=0.3), Branching], ids=["chain", "branching"])
def test_moon_drops_the_same_units_in_both_executions(model):
    task, work = Task("t", federation(SIZES), model()), LocalWork(epochs=2, batch_size=16)
    rows = []
    for execution in ("loop", "vectorised"):
        some = cohort(task, execution, work)
        some.keep("last", perturb(task.initial_row(), 1).expand(4, -1))
        rows.append(fl.MOON(mu=2.0).client_update(some, Message({"row": task.initial_row()})).tensors["row"])
    assert distance(*rows) < 1e-5


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_moon_drops_the_same_units_in_the_models_it_compares(execution):
    """At the received model the cosine with itself is greatest, so only the last model could pull; this one is dead."""
    task, work = Task("t", federation([20]), mlp(dropout=0.5)), LocalWork(steps=1, batch_size=0)
    dead = task.initial_row()
    task.layout.views(dead)["1.bias"].fill_(-1000.0)
    steps = []
    for mu in (0.0, 50.0):
        some = cohort(task, execution, work)
        some.keep("last", dead.expand(1, -1))
        steps.append(fl.MOON(mu=mu).client_update(some, Message({"row": task.initial_row()})).tensors["row"])
    assert distance(*steps) < 1e-5


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_moon_survives_features_that_are_all_zero(execution):
    task = Task("t", federation([20, 9]), mlp())
    with torch.no_grad():
        task.model[1].bias.fill_(-1000.0)
    some = cohort(task, execution, LocalWork())
    some.keep("last", perturb(task.initial_row(), 1).expand(2, -1))
    assert bool(fl.MOON().client_update(some, Message({"row": task.initial_row()})).tensors["row"].isfinite().all())


def test_moon_trains_convolutions_alike_in_both_executions(tmp_path):
    images = Task("t", federation([12, 9], (1, 12, 12)), build("cnn-small", (1, 12, 12), 5, 0))
    loop, whole = (
        final(tmp_path / execution, "moon", images, rounds=2, execution=execution).server["row"]
        for execution in ("loop", "vectorised")
    )
    assert distance(loop, whole) < 1e-4


@pytest.mark.slow
def test_executions_agree_and_two_workers_leave_the_same_bytes(tmp_path):
    check_executions_and_workers_agree(tmp_path, fl.MOON(mu=2.0))
    check_executions_and_workers_agree(tmp_path / "head", fl.MOON(mu=2.0, projection=6))


def test_impossible_settings_are_refused_with_a_sentence():
    with pytest.raises(FedloomError, match="mu=-1: it must be at least 0"):
        fl.MOON(mu=-1)
    with pytest.raises(FedloomError, match="projection=-1: it must be at least 0"):
        fl.MOON(projection=-1)
    with pytest.raises(FedloomError, match="temperature=0: it must be above 0"):
        fl.MOON(temperature=0)
