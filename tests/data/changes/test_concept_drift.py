"""Drift: whose data are whose, from which round on, and that runs follow it to the byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedloom as fl
from fedloom.config.resolve import method_from_config, resolve, task_from_config
from fedloom.config.schema import as_plain
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.data.changes.concept_drift import with_concept_drift
from fedloom.data.changes.withheld_class import with_withheld_class
from fedloom.data.federation import Federation, Ragged
from fedloom.runs.folder.fingerprint import fingerprint
from support.quadratic import quadratic
from support.synthetic import federation, mlp

WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}
SIZES = [33, 9, 50, 20, 14]


def federation_of(sizes: list[int]) -> Federation:
    """Clients with three parts of their own."""
    whole = federation([3 * size for size in sizes])
    thirds = [torch.tensor_split(whole.train[client], 3) for client in range(len(sizes))]
    train, valid, test = (Ragged.of([parts[i] for parts in thirds]) for i in range(3))
    return replace(whole, train=train, valid=valid, test=test)


def owners(before: Federation, after: Federation) -> list[int]:
    """Whose data of ``before`` each client of ``after`` has, all three parts together."""
    found = []
    for client in range(after.clients):
        same = [
            all(
                torch.equal(getattr(after, part)[client], getattr(before, part)[other])
                for part in ("train", "valid", "test")
            )
            for other in range(before.clients)
        ]
        assert sum(same) == 1
        found.append(same.index(True))
    return found


# -- whose data are whose


@given(st.integers(2, 12), st.floats(0.05, 1.0), st.integers(0, 5))
def test_a_drift_is_one_circle_of_clients_that_hand_on_whole_shares(clients, share, seed):
    before = federation_of(list(range(1, clients + 1)))
    number = round(share * clients)
    if number < 2:
        with pytest.raises(FedloomError, match="at least two clients must exchange"):
            with_concept_drift(before, [3], share, seed)
        return
    has = owners(before, with_concept_drift(before, [3], share, seed).at(3))
    moved = [client for client in range(clients) if has[client] != client]
    assert sorted(has) == list(range(clients))
    assert len(moved) == number
    walk = [moved[0]]
    while has[walk[-1]] != walk[0]:
        walk.append(has[walk[-1]])
    assert sorted(walk) == moved


def test_the_data_change_hands_from_the_named_rounds_on_and_each_drift_tops_the_one_before():
    before = federation_of([5, 6, 7, 8])
    after = with_concept_drift(before, [3, 8], seed=1)
    assert after.at(0) is after.at(2) is after
    assert owners(before, after) == [0, 1, 2, 3]
    first, second = after.at(3), after.at(8)
    assert after.at(7) is first
    assert after.at(100) is second
    step = owners(first, second)
    assert owners(before, second) == [owners(before, first)[k] for k in step]
    assert first.columns is second.columns is before.columns


def test_the_seed_decides_who_drifts_and_nothing_else_does():
    before = federation_of(list(range(1, 11)))
    drawn = {tuple(owners(before, with_concept_drift(before, [4], 0.4, seed).at(4))) for seed in range(6)}
    assert len(drawn) > 1
    again = [owners(before, with_concept_drift(before, rounds, 0.4, 2).at(4)) for rounds in ([4], [4, 9])]
    assert again[0] == again[1]


def test_a_withheld_class_stays_withheld_in_the_data_it_was_taken_from():
    before = with_withheld_class(federation([30, 40, 50]), 2, [1])
    after = with_concept_drift(before, [2]).at(2)
    label, (victim,) = after.withheld
    assert label == 2
    assert torch.equal(after.train[victim], before.train[1])
    assert not (after.columns["y"][after.train[victim]] == 2).any()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"rounds": []}, "give rounds"),
        ({"rounds": [0]}, "each at least 1"),
        ({"rounds": [5, 3]}, "in increasing order"),
        ({"rounds": [3, 3]}, "in increasing order"),
        ({"rounds": [3], "share": 0.0}, "share=0.0"),
        ({"rounds": [3], "share": 1.5}, "share=1.5"),
        ({"rounds": [3], "share": 0.2}, "at least two clients must exchange"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(settings, reason):
    with pytest.raises(FedloomError, match=reason):
        with_concept_drift(federation_of([4, 5, 6]), **settings)


def test_a_federation_drifts_by_one_plan():
    with pytest.raises(FedloomError, match="already has concept drift"):
        with_concept_drift(with_concept_drift(federation_of([4, 5]), [3]), [5])


# -- runs


def run(method, task: Task, **settings) -> fl.History:
    return fl.run(task, method, **{"rounds": 4, "seed": 3, "local": WORK, **settings})


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_from_the_drift_on_clients_train_and_test_on_what_they_then_hold(execution):
    """Two clients alone, with the losses (w - 4)²/2 and (w + 2)²/2, which they swap in round 3."""
    task = quadratic([4.0, -2.0])
    task = replace(task, federation=with_concept_drift(task.federation, [3]))
    w, rate = [0.0, 0.0], 0.3
    for record in run("local", task, local={"epochs": 1, "lr": rate}, execution=execution).records:
        optima = [4.0, -2.0] if record["round"] < 3 else [-2.0, 4.0]
        if record["round"]:
            w = [x + rate * (c - x) for x, c in zip(w, optima, strict=True)]
        expected = sum((x - c) ** 2 for x, c in zip(w, optima, strict=True)) / 2
        assert record["metrics"]["client_model/own_test/squared_error/mean"] == pytest.approx(expected, rel=1e-5)


def test_before_the_drift_nothing_is_different_and_the_pooled_data_never_are():
    calm = Task("t", federation_of(SIZES), mlp())
    task = replace(calm, federation=with_concept_drift(calm.federation, [3]))
    bare, drifted = run("fedavg", calm), run("fedavg", task)
    assert bare.records[:3] == drifted.records[:3]
    assert bare.records[3] != drifted.records[3]
    name = "global_model/global_test/loss"
    whole = {"local": {**WORK, "batch_size": 0}}
    assert run("centralised", task, **whole).last(name) == pytest.approx(run("centralised", calm, **whole).last(name))


class Stop(Exception):  # noqa: N818
    """What ends a run in the middle."""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedrep", "centralised", "fedavg+fedpredict:dynamic=true"])
def test_workers_and_a_stop_change_no_byte(tmp_path, method):
    calm = Task("t", federation_of(SIZES), mlp())
    task = replace(calm, federation=with_concept_drift(calm.federation, [2, 4]))
    settings = {"rounds": 5, "selection": {"number": 3}}

    def stop(record):
        if record["round"] == 4:
            raise Stop

    run(method, task, out=tmp_path / "one", **settings)
    run(method, task, out=tmp_path / "two", workers=2, **settings)
    with pytest.raises(Stop):
        run(method, task, out=tmp_path / "stopped", observers=[stop], **settings)
    with pytest.raises(FedloomError, match="was started with other data"):
        fl.resume(tmp_path / "stopped", task=calm)
    fl.resume(tmp_path / "stopped", task=task)
    for folder in ("two", "stopped"):
        for file in ("metrics.jsonl", "clients.json", "checkpoints/round-000005.safetensors"):
            assert (tmp_path / "one" / file).read_bytes() == (tmp_path / folder / file).read_bytes(), (folder, file)


# -- configuration


def test_a_tasks_fingerprint_covers_its_drift():
    calm = Task("t", federation_of(SIZES), mlp())
    plans = [[3], [4], [3, 4]]
    prints = [fingerprint(replace(calm, federation=with_concept_drift(calm.federation, rounds))) for rounds in plans]
    assert len({fingerprint(calm), *prints}) == 4
    swapped = replace(calm.federation, valid=calm.federation.test, test=calm.federation.valid)
    assert fingerprint(replace(calm, federation=swapped)) != fingerprint(calm)


def test_a_named_task_drifts_by_its_settings_and_writes_them_down():
    plan = {"rounds": [5], "share": 0.5}
    task = fl.task("digits", clients=6, alpha=0.5, drift=plan, seed=1)
    assert task.made_from["drift"] == plan
    calm = fl.task("digits", clients=6, alpha=0.5, seed=1)
    assert "drift" not in calm.made_from
    assert sum(a != b for a, b in enumerate(owners(calm.federation, task.federation.at(5)))) == 3
    config = resolve({"seed": 1, "task": {"clients": 6, "partition": "dirichlet(0.5)", "drift": plan}})
    assert fingerprint(task_from_config(config)) == fingerprint(task)
    assert as_plain(config, method_from_config(config))["task"]["drift"] == plan
    history = fl.run(task, rounds=1)
    assert history.config["task"]["drift"] == plan


def test_data_of_ones_own_drift_too(tmp_path):
    numbers = np.random.default_rng(0)
    path = Path(tmp_path) / "own.npz"
    x = numbers.normal(size=(300, 4)).astype("float32")
    np.savez(path, x=x, y=np.arange(300) % 3, client=np.arange(300) // 100)
    altered = {"drift": {"rounds": [2]}, "withhold": {"label": 1, "clients": [0]}}
    task = task_from_config(resolve({"task": {"name": "own", "path": str(path), **altered}}))
    assert task.federation.withheld == (1, (0,))
    assert sorted(owners(task.federation, task.federation.at(2))) == [0, 1, 2]
    assert owners(task.federation, task.federation.at(2)) != [0, 1, 2]


@pytest.mark.parametrize(
    ("drift", "reason"),
    [
        ({"rounds": "soon"}, "rounds='soon'"),
        ({"share": 0.5}, "task.drift.rounds is missing"),
        ({"rounds": [3], "shares": 0.5}, "Did you mean 'task.drift.share'?"),
    ],
)
def test_a_wrong_setting_is_named_by_its_path(drift, reason):
    with pytest.raises(FedloomError) as caught:
        resolve({"task": {"drift": drift}})
    assert reason in str(caught.value)
    with pytest.raises(FedloomError):
        fl.task("digits", clients=5, drift=drift)
