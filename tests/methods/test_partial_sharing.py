"""Decoupled models: what travels, what stays, what is trained, and how little a slice costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.rounds.run_state import RunState
from support.checkpoints import WORK, final, same
from support.synthetic import Branching, cohort, distance, federation, mlp

SIZES = [33, 9, 50, 20]
METHODS = {"fedper": fl.FedPer(), "lgfedavg": fl.LGFedAvg(), "fedrep": fl.FedRep(), "fedbabu": fl.FedBABU()}
BODY, HEAD = 20 * 16 + 16, 16 * 5 + 5
EXECUTIONS = pytest.mark.parametrize("execution", ["loop", "vectorised"])


def small() -> Task:
    return Task("t", federation(SIZES), mlp())


def part(task: Task, state: RunState, name: str) -> torch.Tensor:
    return task.layout.take(state.server["row"], name)


# -- what stays where it is


@EXECUTIONS
@pytest.mark.parametrize("name", METHODS)
def test_the_unshared_part_of_the_servers_row_is_untouched_to_the_byte(tmp_path, name, execution):
    task, shared = small(), METHODS[name].shared
    other = "head" if shared == "body" else "body"
    state = final(tmp_path / "run", name, task, execution=execution, selection={"fraction": 0.5})
    assert same(part(task, state, other), task.layout.take(task.initial_row(), other))
    assert not same(part(task, state, shared), task.layout.take(task.initial_row(), shared))


@pytest.mark.parametrize("name", ["fedper", "fedrep", "fedbabu", "lgfedavg"])
def test_a_server_optimiser_moves_only_what_is_shared(tmp_path, name):
    task, other = small(), "body" if METHODS[name].shared == "head" else "head"
    state = final(tmp_path / "run", name, task, server_optimizer={"kind": "yogi"})
    assert same(part(task, state, other), task.layout.take(task.initial_row(), other))


@pytest.mark.parametrize("name", METHODS)
def test_clients_keep_exactly_their_own_part(tmp_path, name):
    state = final(tmp_path / "run", name, small(), rounds=1, selection={"number": 2})
    own = METHODS[name].own
    assert set(state.client_states.rows) == ({own} if own else set())
    if own:
        assert state.client_states.rows[own].shape == (4, {"body": BODY, "head": HEAD}[own])
        assert state.client_states.has[own].sum() == 2


@EXECUTIONS
def test_fedrep_trains_the_head_first_and_then_the_body_alone(execution):
    task, work = small(), LocalWork(**WORK)
    some = cohort(task, execution, work)
    rows = fl.FedRep(head_epochs=3).train(some, some.spread(task.initial_row()))
    alone = cohort(task, execution, work)
    headed = alone.train(alone.spread(task.initial_row()), part="head", work=replace(work, epochs=3))
    bodied = alone.train(headed, part="body")
    assert same(rows, bodied)
    assert same(task.layout.take(rows, "head"), task.layout.take(headed, "head"))
    steps = torch.tensor([work.steps_for(size) for size in SIZES])
    assert torch.equal(some.steps, steps // 2 * 3 + steps)  # three epochs of the head, two of the body


@EXECUTIONS
def test_fedbabu_never_moves_a_head(execution):
    task = small()
    some = cohort(task, execution, LocalWork(**WORK))
    rows = fl.FedBABU().train(some, some.spread(task.initial_row()))
    start = task.initial_row()
    assert all(same(task.layout.take(row, "head"), task.layout.take(start, "head")) for row in rows)
    assert all(not same(task.layout.take(row, "body"), task.layout.take(start, "body")) for row in rows)


# -- identities


@EXECUTIONS
def test_fedrep_that_never_trains_its_heads_is_fedbabu_to_the_byte(tmp_path, execution):
    settings = {"execution": execution, "selection": {"fraction": 0.5}}
    rep = final(tmp_path / "rep", fl.FedRep(head_epochs=0), small(), **settings)
    babu = final(tmp_path / "babu", "fedbabu", small(), **settings)
    assert same(rep.server["row"], babu.server["row"])


def test_one_client_alone_has_nothing_to_decouple(tmp_path):
    """FedPer and LG-FedAvg train all of the model: with one client both are local training."""
    task = Task("t", federation([40]), mlp())
    local = final(tmp_path / "local", "local", task).client_states.rows["row"][0]
    for name, own in (("fedper", "head"), ("lgfedavg", "body")):
        state = final(tmp_path / name, name, task)
        row = task.layout.put(state.server["row"], own, state.client_states.rows[own][0])
        assert same(row, local)


@pytest.mark.parametrize("name", ["fedper", "lgfedavg"])
def test_the_shared_part_is_the_mean_of_what_clients_trained(tmp_path, name):
    task, shared = small(), METHODS[name].shared
    some = cohort(task, "vectorised", LocalWork(**WORK))
    rows = task.layout.take(some.train(some.spread(task.initial_row())), shared)
    expected = ((torch.tensor(SIZES) / sum(SIZES))[:, None] * rows).sum(0)
    assert distance(expected, part(task, final(tmp_path / "run", name, task, rounds=1), shared)) < 1e-6


# -- what is predicted with


@pytest.mark.parametrize("name", METHODS)
def test_clients_predict_with_the_new_shared_part_and_the_part_they_kept(name):
    task, method = small(), METHODS[name]
    layout, start = task.layout, task.initial_row()
    some = cohort(task, "vectorised", LocalWork(**WORK))
    method.client_update(some, fl.Message({method.shared: layout.take(start, method.shared)}))
    new = torch.linspace(-1, 1, {"body": BODY, "head": HEAD}[method.shared])
    rows = method.weights_for(fl.Message({method.shared: new}), some)
    other = "head" if method.shared == "body" else "body"
    for client in range(4):
        kept = some.state[other][client] if method.own else layout.take(start, other)
        assert same(layout.take(rows[client], method.shared), new)
        assert same(layout.take(rows[client], other), kept)


@pytest.mark.parametrize("name", METHODS)
def test_a_client_that_never_trained_has_the_initial_unshared_part(name):
    task, method = small(), METHODS[name]
    new = torch.linspace(-1, 1, {"body": BODY, "head": HEAD}[method.shared])
    rows = method.weights_for(fl.Message({method.shared: new}), cohort(task, "vectorised", LocalWork(**WORK)))
    assert all(same(row, task.layout.put(task.initial_row(), method.shared, new)) for row in rows)


# -- what it costs


def bytes_of(method: str) -> tuple[int, int]:
    history = fl.run(small(), method, rounds=1, local=WORK, eval_every=0)
    return history.total("bytes_up"), history.total("bytes_down")


def test_only_the_shared_slice_travels():
    assert bytes_of("fedper") == bytes_of("fedrep") == bytes_of("fedbabu") == (4 * 4 * BODY, 4 * 4 * BODY)
    assert bytes_of("lgfedavg") == (4 * 4 * HEAD, 4 * 4 * HEAD)
    assert bytes_of("fedavg") == (4 * 4 * (BODY + HEAD), 4 * 4 * (BODY + HEAD))
    assert bytes_of("lgfedavg") < bytes_of("fedrep") < bytes_of("fedavg")


# -- parts


def test_a_model_may_name_its_own_head(tmp_path):
    model = Branching()
    model.parts = {"head": ["right.*"]}
    task = Task("t", federation(SIZES), model)
    state = final(tmp_path / "run", "fedper", task, rounds=1)
    moved = task.layout.views(state.server["row"] != task.initial_row())
    assert not moved["right.weight"].any()
    assert moved["left.weight"].any()
    assert moved["head.weight"].any()


def test_buffers_of_the_body_are_shared_with_it(tmp_path):
    model = nn.Sequential(nn.Linear(20, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 5))
    task = Task("t", federation([32, 48, 16]), model)
    state = final(tmp_path / "run", "fedper", task, rounds=1)
    some = cohort(task, "loop", LocalWork(**WORK))
    rows = some.train(some.spread(task.initial_row()))
    expected = torch.tensor([32.0, 48.0, 16.0]) / 96 @ task.layout.views(rows)["1.running_mean"]
    assert distance(expected, task.layout.views(state.server["row"])["1.running_mean"]) < 1e-5


@pytest.mark.parametrize("name", METHODS)
def test_a_head_pattern_that_matches_nothing_is_refused(name):
    model = mlp()
    model.parts = {"head": ["fc3.*"]}  # type: ignore[assignment]
    with pytest.raises(FedloomError, match=r"the pattern 'fc3.\*' of part 'head' matches no parameter"):
        fl.run(Task("t", federation(SIZES), model), name, rounds=1)


@pytest.mark.parametrize(
    ("parts", "has"), [(None, "head"), ({"eyes": ["1"], "head": ["4"]}, "eyes, head"), ({}, "body")]
)
@pytest.mark.parametrize("name", METHODS)
def test_a_model_that_is_not_a_body_and_a_head_is_refused(name, parts, has):
    model = nn.Linear(20, 5) if parts is None else mlp()
    if parts is not None:
        model.parts = parts  # type: ignore[assignment]
    sentence = f"{name} needs a model with a body and a head, and {type(model).__name__} has {has}: name the head"
    with pytest.raises(FedloomError, match=sentence):
        fl.run(Task("t", federation(SIZES), model), name, rounds=1)


def test_a_shared_body_is_not_scored_as_a_model_and_a_body_with_a_fixed_head_is():
    for name in METHODS:
        history = fl.run(small(), name, rounds=1, local=WORK)
        assert ("global_model/global_test/accuracy" in history.records[-1]["metrics"]) == (name == "fedbabu")


def test_a_negative_number_of_epochs_is_refused():
    with pytest.raises(FedloomError, match="head_epochs=-1: it must not be negative"):
        fl.FedRep(head_epochs=-1)
