"""Decoupled models: what travels, what stays, what is trained, and how little a slice costs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.rounds.run_state import RunState
from support.checkpoints import WORK, final, same
from support.synthetic import SIZES, cohort, distance, federation, mlp, small_task

METHODS = {"fedper": fl.FedPer(), "lgfedavg": fl.LGFedAvg(), "fedrep": fl.FedRep(), "fedbabu": fl.FedBABU()}
BODY, HEAD = 20 * 16 + 16, 16 * 5 + 5


def part(task: Task, state: RunState, name: str) -> torch.Tensor:
    return task.layout.take(state.server["row"], name)


# -- what stays where it is


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("name", METHODS)
def test_the_unshared_part_of_the_servers_row_is_untouched_to_the_byte(tmp_path, name, execution):
    task, shared = small_task(), METHODS[name].shared
    other = "head" if shared == "body" else "body"
    state = final(tmp_path / "run", name, task, execution=execution, selection={"fraction": 0.5})
    assert same(part(task, state, other), task.layout.take(task.initial_row(), other))
    assert not same(part(task, state, shared), task.layout.take(task.initial_row(), shared))


@pytest.mark.parametrize("name", ["fedper", "fedrep", "fedbabu", "lgfedavg"])
def test_a_server_optimiser_moves_only_what_is_shared(tmp_path, name):
    task, other = small_task(), "body" if METHODS[name].shared == "head" else "head"
    state = final(tmp_path / "run", name, task, server_optimizer={"kind": "yogi"})
    assert same(part(task, state, other), task.layout.take(task.initial_row(), other))


@pytest.mark.parametrize("name", METHODS)
def test_clients_keep_exactly_their_own_part(tmp_path, name):
    state = final(tmp_path / "run", name, small_task(), rounds=1, selection={"number": 2})
    own = METHODS[name].own
    assert set(state.client_states.rows) == ({own} if own else set())
    if own:
        assert state.client_states.rows[own].shape == (4, {"body": BODY, "head": HEAD}[own])
        assert state.client_states.has[own].sum() == 2


# -- identities


@pytest.mark.parametrize("name", ["fedper", "lgfedavg"])
def test_the_shared_part_is_the_mean_of_what_clients_trained(tmp_path, name):
    task, shared = small_task(), METHODS[name].shared
    some = cohort(task, "vectorised", LocalWork(**WORK))
    rows = task.layout.take(some.train(some.spread(task.initial_row())), shared)
    expected = ((torch.tensor(SIZES) / sum(SIZES))[:, None] * rows).sum(0)
    assert distance(expected, part(task, final(tmp_path / "run", name, task, rounds=1), shared)) < 1e-6


# -- what is predicted with


@pytest.mark.parametrize("name", METHODS)
def test_clients_predict_with_the_new_shared_part_and_the_part_they_kept(name):
    task, method = small_task(), METHODS[name]
    layout, start = task.layout, task.initial_row()
    some = cohort(task, "vectorised", LocalWork(**WORK))
    method.client_update(some, fl.Message({method.shared: layout.take(start, method.shared)}))
    new = torch.linspace(-1, 1, {"body": BODY, "head": HEAD}[method.shared])
    rows = method.weights_for(fl.Message({method.shared: new}), some)
    other = "head" if method.shared == "body" else "body"
    for client in range(4):
        kept = some.kept[other].rows[client] if method.own else layout.take(start, other)
        assert same(layout.take(rows[client], method.shared), new)
        assert same(layout.take(rows[client], other), kept)


@pytest.mark.parametrize("name", METHODS)
def test_a_client_that_never_trained_has_the_initial_unshared_part(name):
    task, method = small_task(), METHODS[name]
    new = torch.linspace(-1, 1, {"body": BODY, "head": HEAD}[method.shared])
    rows = method.weights_for(fl.Message({method.shared: new}), cohort(task, "vectorised", LocalWork(**WORK)))
    assert all(same(row, task.layout.put(task.initial_row(), method.shared, new)) for row in rows)


# -- what it costs


def bytes_of(method: str) -> tuple[int, int]:
    history = fl.run(small_task(), method, rounds=1, local=WORK, eval_every=0)
    return history.total("bytes_up"), history.total("bytes_down")


def test_only_the_shared_slice_travels():
    assert bytes_of("fedper") == bytes_of("fedrep") == bytes_of("fedbabu") == (4 * 4 * BODY, 4 * 4 * BODY)
    assert bytes_of("lgfedavg") == (4 * 4 * HEAD, 4 * 4 * HEAD)
    assert bytes_of("fedavg") == (4 * 4 * (BODY + HEAD), 4 * 4 * (BODY + HEAD))
    assert bytes_of("lgfedavg") < bytes_of("fedrep") < bytes_of("fedavg")


# -- parts


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
    sentence = f"{name} needs a model with a body and a head, but {type(model).__name__} has {has}: name the head"
    with pytest.raises(FedloomError, match=sentence):
        fl.run(Task("t", federation(SIZES), model), name, rounds=1)


def test_a_shared_body_is_not_scored_as_a_model_and_a_body_with_a_fixed_head_is():
    for name in METHODS:
        history = fl.run(small_task(), name, rounds=1, local=WORK)
        assert ("global_model/global_test/accuracy" in history.records[-1]["metrics"]) == (name == "fedbabu")
