"""MOON and FedProto: their losses by hand, what they are without their terms, and what FedProto's prototypes are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.core.task import Task
from fedloom.core.threads import single_thread
from fedloom.data.federation import Federation, Ragged
from fedloom.models import build
from fedloom.training.batches import Assignment
from support.checkpoints import WORK, final, same
from support.synthetic import Branching, cohort, distance, federation, mlp

SIZES = [33, 9, 50, 20]


@pytest.fixture(autouse=True)
def one_thread():
    with single_thread():
        yield


def small() -> Task:
    return Task("t", federation(SIZES), mlp())


def sorted_by_class() -> Task:
    """Three clients with the classes {0, 1}, {1, 2} and {2}, of five; nobody has 3 and 4."""
    generator = torch.Generator().manual_seed(5)
    y = torch.tensor([0] * 6 + [1] * 3 + [1] * 9 + [2] * 5 + [2] * 8)
    x = torch.randn(len(y), 20, generator=generator) + y[:, None]
    parts = Ragged.of(np.split(np.arange(len(y)), [9, 23]))
    return Task("sorted", Federation({"x": x, "y": y}, parts, parts, Ragged.empty(3), 5), mlp())


def shaken(row: torch.Tensor, seed: int) -> torch.Tensor:
    return row + 0.3 * torch.randn(row.shape, generator=torch.Generator().manual_seed(seed))


def features(task: Task, row: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """What the head of the small network sees, written out."""
    tensors = task.layout.views(row)
    return F.relu(x @ tensors["1.weight"].t() + tensors["1.bias"])


# -- MOON


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_moon_without_its_term_is_fedavg(tmp_path, execution):
    settings = {"execution": execution, "selection": {"number": 3}}
    moon = final(tmp_path / "moon", fl.MOON(mu=0), small(), **settings)
    plain = final(tmp_path / "plain", "fedavg", small(), **settings)
    assert distance(plain.server["row"], moon.server["row"]) < 1e-5
    other = final(tmp_path / "other", fl.MOON(mu=5.0), small(), **settings)
    assert distance(plain.server["row"], other.server["row"]) > 1e-4


def test_the_first_round_of_moon_is_fedavgs(tmp_path):
    """A client without a last model compares the received one with itself: the term is constant."""
    moon = final(tmp_path / "moon", fl.MOON(mu=5.0), small(), rounds=1)
    plain = final(tmp_path / "plain", "fedavg", small(), rounds=1)
    assert distance(plain.server["row"], moon.server["row"]) < 1e-5


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_step_of_moon_is_the_gradient_of_the_papers_loss(execution):
    task, work = small(), LocalWork(epochs=1, batch_size=16, lr=0.1)
    received, last = task.initial_row(), torch.stack([shaken(task.initial_row(), k) for k in range(4)])
    some = cohort(task, execution, work)
    some.keep("last", last)
    reply = fl.MOON(mu=2.0, temperature=0.7).client_update(some, Message({"row": received}))
    for client in range(4):
        row = received.clone()
        for positions in Assignment.of(client, task.federation.train[client], work, 3, 1):
            x, y, now = task.inputs(positions), task.targets(positions), row.clone().requires_grad_()
            z, near, far = (features(task, w, x) for w in (now, received, last[client]))
            towards = torch.exp(F.cosine_similarity(z, near) / 0.7)
            away = torch.exp(F.cosine_similarity(z, far) / 0.7)
            head = task.layout.views(now)
            outputs = z @ head["4.weight"].t() + head["4.bias"]
            loss = F.cross_entropy(outputs, y) - 2.0 * torch.log(towards / (towards + away)).mean()
            row = row - 0.1 * torch.autograd.grad(loss, now)[0]
        assert distance(row, reply.tensors["row"][client]) < 1e-5
        assert torch.equal(some.state["last"][client], reply.tensors["row"][client])


def test_moon_keeps_what_each_client_trained_last(tmp_path):
    state = final(tmp_path / "run", fl.MOON(), small(), rounds=1, weight_by="uniform")
    assert distance(state.client_states.rows["last"].mean(0), state.server["row"]) < 1e-6


@pytest.mark.parametrize("model", [lambda: mlp(dropout=0.3), Branching], ids=["chain", "branching"])
def test_moon_drops_the_same_units_in_both_executions(model):
    task, work = Task("t", federation(SIZES), model()), LocalWork(epochs=2, batch_size=16)
    rows = []
    for execution in ("loop", "vectorised"):
        some = cohort(task, execution, work)
        some.keep("last", shaken(task.initial_row(), 1).expand(4, -1))
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
    some.keep("last", shaken(task.initial_row(), 1).expand(2, -1))
    assert bool(fl.MOON().client_update(some, Message({"row": task.initial_row()})).tensors["row"].isfinite().all())


def test_moon_trains_convolutions_alike_in_both_executions(tmp_path):
    images = Task("t", federation([12, 9], (1, 12, 12)), build("cnn-small", (1, 12, 12), 5, 0))
    loop, whole = (
        final(tmp_path / execution, "moon", images, rounds=2, execution=execution).server["row"]
        for execution in ("loop", "vectorised")
    )
    assert distance(loop, whole) < 1e-4


# -- FedProto


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_fedproto_without_its_term_is_local_training(tmp_path, execution):
    settings = {"execution": execution, "selection": {"number": 3}}
    proto = final(tmp_path / "proto", fl.FedProto(lam=0), small(), **settings)
    local = final(tmp_path / "local", "local", small(), **settings)
    assert torch.equal(local.client_states.has["row"], proto.client_states.has["row"])
    assert distance(local.client_states.rows["row"], proto.client_states.rows["row"]) < 1e-5
    other = final(tmp_path / "other", fl.FedProto(lam=10.0), small(), **settings)
    assert distance(local.client_states.rows["row"], other.client_states.rows["row"]) > 1e-3


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_prototypes_are_the_mean_features_of_all_samples_of_a_class(tmp_path, execution):
    """Weighted by counts, the mean of the clients' means is the mean over samples, each under its client's model."""
    task = sorted_by_class()
    state = final(tmp_path / "run", "fedproto", task, rounds=1, execution=execution)
    assert state.server["known"].tolist() == [True, True, True, False, False]
    for label in range(3):
        seen = []
        for client in range(3):
            positions = task.federation.train[client]
            mine = positions[task.targets(positions) == label]
            seen.append(features(task, state.client_states.rows["row"][client], task.inputs(mine)))
        assert torch.allclose(state.server["prototypes"][label], torch.cat(seen).mean(0), atol=1e-5)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_step_of_fedproto_pulls_features_to_the_prototypes_that_are_known(execution):
    task, work = sorted_by_class(), LocalWork(epochs=1, batch_size=4, lr=0.1)
    prototypes = torch.randn(2, 16, generator=torch.Generator().manual_seed(2))
    some = cohort(task, execution, work)
    fl.FedProto(lam=3.0).client_update(some, Message({"classes": torch.tensor([1, 4]), "prototypes": prototypes}))
    for client in range(3):
        row = task.initial_row()
        for positions in Assignment.of(client, task.federation.train[client], work, 3, 1):
            x, y, now = task.inputs(positions), task.targets(positions), row.clone().requires_grad_()
            z, head = features(task, now, x), task.layout.views(now)
            loss = F.cross_entropy(z @ head["4.weight"].t() + head["4.bias"], y)
            apart = ((z[y == 1] - prototypes[0]) ** 2).sum() / 16 / len(y)  # class 4 nobody has; 0 and 2 are not known
            row = row - 0.1 * torch.autograd.grad(loss + 3.0 * apart, now)[0]
        assert distance(row, some.state["row"][client]) < 1e-5


def test_what_nobody_sent_stays_as_it_was_known(tmp_path):
    """Only client 2 is asked again, and it only has class 2."""
    task = sorted_by_class()
    method = fl.FedProto()
    before = final(tmp_path / "run", method, task, rounds=1).server
    some = cohort(task, "loop", LocalWork(), ids=[2])
    reply = method.client_update(some, method.broadcast(before, [2]))

    class Sent(dict):
        aggregator = staticmethod(lambda rows, weights: weights @ rows)
        samples = some.samples

    after = method.aggregate(before, Sent(reply.tensors))
    assert torch.equal(after["known"], before["known"])
    assert torch.equal(after["prototypes"][[0, 1, 3, 4]], before["prototypes"][[0, 1, 3, 4]])
    assert torch.equal(after["prototypes"][2], reply.tensors["prototypes"][0, 2])


def test_only_prototypes_of_classes_that_a_client_has_travel():
    """Up: 2, 2 and 1 classes of 16 features, a count and a label; down: what is known, nothing in the first round."""
    history = fl.run(sorted_by_class(), "fedproto", rounds=2, local=WORK, eval_every=0)
    first, second = history.records
    one = 4 * (16 + 2)
    assert [first["bytes_up"], second["bytes_up"]] == [5 * one] * 2
    assert first["bytes_down"] == 0
    assert second["bytes_down"] == 3 * 3 * 4 * (16 + 1)


def test_clients_of_fedproto_predict_with_their_own_models(tmp_path):
    task = sorted_by_class()
    state = final(tmp_path / "run", "fedproto", task, rounds=2, selection={"number": 2})
    has = state.client_states.has["row"].bool()
    some = cohort(task, "loop", LocalWork())
    some.state = state.client_states.read([0, 1, 2])
    rows = fl.FedProto().weights_for(fl.FedProto().broadcast(state.server, [0, 1, 2]), some)
    assert torch.equal(rows[has], state.client_states.rows["row"][has])
    assert torch.equal(rows[~has], task.initial_row().expand(int((~has).sum()), -1))


def test_fedproto_draws_the_clients_features_of_a_class_together(tmp_path):
    """Class 1 is held by clients 0 and 1: with a strong pull their prototypes end nearer than by local training."""
    task = sorted_by_class()

    def apart(lam: float) -> float:
        state = final(tmp_path / str(lam), fl.FedProto(lam=lam), task, rounds=20, checkpoint_every=99)
        rows = state.client_states.rows["row"]
        means = []
        for client in (0, 1):
            positions = task.federation.train[client]
            mine = positions[task.targets(positions) == 1]
            means.append(features(task, rows[client], task.inputs(mine)).mean(0))
        return float((means[0] - means[1]).norm())

    assert apart(10.0) < 0.7 * apart(0.0)


# -- both


@pytest.mark.parametrize("method", [fl.MOON(mu=2.0), fl.FedProto()], ids=["moon", "fedproto"])
def test_executions_agree_and_two_workers_leave_the_same_bytes(tmp_path, method):
    settings = {"selection": {"number": 3}, "rounds": 3, "eval_every": 1}
    whole, loop, spread = (
        final(tmp_path / name, method, small(), **how, **settings)
        for name, how in {
            "whole": {"execution": "vectorised"},
            "loop": {"execution": "loop"},
            "spread": {"execution": "vectorised", "workers": 2},
        }.items()
    )
    for name in whole.server:
        assert distance(whole.server[name].float(), loop.server[name].float()) < 1e-4
        assert same(whole.server[name], spread.server[name])
    for name in whole.client_states.rows:
        assert distance(whole.client_states.rows[name], loop.client_states.rows[name]) < 1e-4
        assert same(whole.client_states.rows[name], spread.client_states.rows[name])


def test_impossible_settings_are_refused_with_a_sentence():
    with pytest.raises(FedloomError, match="mu=-1: the weight of the contrastive term must not be negative"):
        fl.MOON(mu=-1)
    with pytest.raises(FedloomError, match="temperature=0: it must be a positive number"):
        fl.MOON(temperature=0)
    with pytest.raises(FedloomError, match="lam=-1: the pull towards the prototypes must not be negative"):
        fl.FedProto(lam=-1)


class Mute(nn.Module):
    """A model that does not tell what its head sees."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(20, 4), nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


@pytest.mark.parametrize("name", ["moon", "fedproto"])
def test_models_without_features_are_refused_with_a_sentence(name):
    with pytest.raises(FedloomError, match=f"{name} uses features, .* Mute does not return them: give it a"):
        fl.run(Task("t", federation(SIZES), Mute()), name, rounds=1)
    flat = nn.Sequential(nn.Flatten(), nn.Linear(20, 5))
    with pytest.raises(FedloomError, match=f"{name} uses features, .* Sequential is all head: use a"):
        fl.run(Task("t", federation(SIZES), flat), name, rounds=1)


def test_fedproto_refuses_a_task_without_classes():
    made = federation(SIZES)
    held = Federation(
        {"x": made.columns["x"], "y": torch.randn(sum(SIZES), 1)}, made.train, made.test, Ragged.empty(4), 1
    )
    with pytest.raises(
        FedloomError, match="fedproto averages features by class, and this task has no class per sample"
    ):
        fl.run(Task("t", held, mlp()), "fedproto", rounds=1)
