"""Advice: what it may look at while methods play, what it says of them, and one real tournament."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.objective import SquaredError
from fedloom.runs.plans.advise import advise as a
from fedloom.runs.plans.advise import candidates as c
from fedloom.runs.plans.advise.halving import Budget, schedule
from fedloom.runs.results.history import History
from support.synthetic import federation, mlp


def test_screening_sees_validation_parts_and_no_test_sample():
    made = fl.task("digits", clients=6, alpha=1.0, valid_share=0.2, seed=1).federation
    seen = made.with_validation_as_test()
    assert torch.equal(seen.test.order, made.valid.order)
    assert torch.equal(seen.train.order, made.train.order)
    tests = set(made.test.order.tolist()) | set(made.global_test.tolist())
    for part in (seen.train, seen.valid, seen.test):
        assert not tests & set(part.order.tolist())
    assert len(seen.global_test) == 0
    with pytest.raises(FedloomError, match="no client has a validation part"):
        fl.task("digits", clients=6).federation.with_validation_as_test()


def test_data_that_drift_are_screened_on_their_later_validation_parts_too():
    made = fl.task("digits", clients=4, alpha=1.0, valid_share=0.2).federation
    other = replace(made, valid=made.test, test=made.valid)
    seen = replace(made, later=((3, other),)).with_validation_as_test()
    assert torch.equal(seen.at(3).test.order, made.test.order)


@pytest.mark.parametrize(
    ("task", "share"),
    [
        ({}, 0.2),
        ({"valid_share": 0.3}, 0.3),
        ({"test_share": 0.1}, 0.1),
        ({"test_share": 0.1, "valid_share": 0.0}, 0.1),
    ],
)
def test_a_named_task_without_validation_data_gets_as_much_as_it_has_test_data(task, share):
    given = {"task": task, "rounds": 3, "method": {"name": "fedavg"}, "eval_every": 7}
    assert a._with_validation(given, named=True) == {"task": {**task, "valid_share": share}, "rounds": 3}


@pytest.fixture
def screening(tmp_path):
    values = {"task": {"name": "digits", "clients": 6, "valid_share": 0.2}, "local": {"lr": 0.1, "batch_size": 32}}
    names = {one.label: one for one in c.candidates([("local",), ("fedavg",), ("fedper",), ("scaffold",)], 0.1)}
    made = a.Screening(tmp_path, values, names)
    made.check()
    return made


def test_a_candidate_is_scored_on_validation_data_while_it_plays_and_on_test_data_at_the_end(screening):
    name = "fedper lr=0.1"
    valid, test = screening.run_candidate(name, 3, 1), screening.test_outcome(name, 3, 1)
    task = fl.task("digits", clients=6, valid_share=0.2, seed=1)
    run = fl.run(task, "fedper", rounds=3, seed=1)
    for row in run.clients:
        assert test.scores[row["group"]][f"1/{row['client']}"] == row["accuracy"]
    shown = fl.run(replace(task, federation=task.federation.with_validation_as_test()), "fedper", rounds=3, seed=1)
    for row in shown.clients:
        assert valid.scores[row["group"]][f"1/{row['client']}"] == row["accuracy"]


def test_a_finished_run_is_read_with_the_seconds_it_took(screening):
    first = screening.run_candidate("fedavg lr=0.1", 2, 0)
    again = screening.run_candidate("fedavg lr=0.1", 2, 0)
    assert not first.read
    assert again.read
    assert again == replace(first, read=True)
    assert 0 <= first.fixed < first.seconds


def test_costs_are_per_client_and_round(screening):
    screening.run_candidate("scaffold lr=0.1", 2, 0)
    screening.run_candidate("local lr=0.1", 2, 0)
    row = screening.tasks.tasks[0][1].initial_row()
    price = screening.cost("scaffold lr=0.1", 2)
    assert (price.bytes_up, price.bytes_down) == (2 * row.nbytes, 2 * row.nbytes)  # a model and a control variate
    run = History.load(screening.run_folder("scaffold lr=0.1", 2, 0))
    assert price.steps == run.total("steps") / (2 * 6)
    assert screening.cost("local lr=0.1", 2).bytes == 0


def test_what_is_refused_diverges_or_breaks_is_an_outcome_with_a_sentence(screening, monkeypatch):
    screening.values = {**screening.values, "local": {"lr": 0.1, "momentum": 0.9}}
    assert "plain gradient steps" in screening.run_candidate("scaffold lr=0.1", 2, 0).failed
    screening.names = {"fedavg lr=1e+20": c.Candidate("fedavg", 1e20), **screening.names}
    assert "diverged" in screening.run_candidate("fedavg lr=1e+20", 2, 0).failed
    assert "diverged" in screening.run_candidate("fedavg lr=1e+20", 2, 0).failed  # also when it is only read

    def broken(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(fl.FedPer, "client_update", broken)
    assert screening.run_candidate("fedper lr=0.1", 2, 0).failed.endswith("RuntimeError: a bug")


def test_clients_of_one_size_are_one_group():
    rows = [{"client": k, "group": "small", "accuracy": 0.5, "loss": 1.0} for k in range(3)]
    screening = a.Screening(None, {"task": {"seed": 3}}, {}, one_task=True)
    screening.tasks.tasks.append((None, fl.task_of(federation([5, 5, 5]), mlp())))
    assert screening.by_group(rows, 2) == {"all": {"0": 0.5, "1": 0.5, "2": 0.5}}
    new = [*rows, {"client": 3, "group": "new", "accuracy": 0.1, "loss": 1.0}]
    assert "3" not in screening.by_group(new, 0)["all"]
    screening.tasks.tasks[0] = (None, fl.task_of(federation([5, 5, 5]), mlp(), objective=SquaredError()))
    losses = [{"client": 0, "group": "small", "squared_error": 4.0, "loss": 2.0}]
    assert screening.by_group(losses, 0) == {"all": {"0": -2.0}}


def short(monkeypatch, rungs):
    """Only the first rungs of a tournament."""
    monkeypatch.setattr(a, "schedule", lambda *size: schedule(*size)[:rungs])


@pytest.mark.slow
def test_a_small_tournament_gives_advice_for_every_group_and_repeats_itself(tmp_path, monkeypatch):
    short(monkeypatch, 2)
    task = fl.task("digits", clients=9, alpha=0.3)
    how = {"minutes": 20.0, "methods": "fedavg,fedper", "rounds": 2, "out": tmp_path / "a"}
    advice, again = fl.advise(task, **how), fl.advise(task, **how)
    assert [pick.group for pick in advice.groups] == ["small", "intermediate", "big"]
    played = {name for rung in advice.rungs for name in rung.candidates}
    assert {c.method_of(name) for name in played} == {"local", "fedavg", "fedper"}
    for pick in (*advice.groups, advice.overall):
        assert pick.use.candidate in advice.rungs[-1].candidates
        assert 0 <= pick.use.test <= 1
        assert pick.over_runner_up is None or 0 <= pick.over_runner_up <= 1
    assert advice.overall.clients == 9
    assert not advice.not_run
    assert replace(again, seconds=0.0) == replace(advice, seconds=0.0)
    assert json.loads((tmp_path / "a" / "advice.json").read_text())["task"] == "digits"
    assert max(map(len, str(advice).splitlines())) <= 100
    with pytest.raises(FedloomError, match="other data or settings"):
        fl.advise(fl.task("digits", clients=8, alpha=0.3), **how)


@pytest.mark.slow
def test_the_clock_ends_a_tournament_and_the_advice_says_what_was_not_run(monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr(a, "Budget", lambda seconds: Budget(seconds, lambda: float(next(ticks))))
    task = fl.task("digits", clients=6, alpha=0.3)
    advice = fl.advise(task, minutes=20 / 60, methods="fedavg,fedper,fedrep,scaffold,fedprox,feddyn", rounds=40)
    assert advice.not_run
    assert len(advice.rungs[0].candidates) >= 2
    assert advice.rungs[-1].rounds < 40
    assert "Not run for lack of time" in str(advice)
    assert "of the 40 rounds you intend to train" in str(advice)


def test_a_budget_for_less_than_two_runs_is_refused_with_the_time_that_one_took():
    with pytest.raises(FedloomError, match="give more minutes"):
        fl.advise("digits", minutes=1e-6)


@pytest.mark.parametrize(
    ("task", "how", "part"),
    [
        ("digits", {"minutes": 0}, "minutes=0"),
        ("digits", {"minutes": float("nan")}, "minutes=nan"),
        ("digits", {"minutes": float("inf")}, "minutes=inf"),
        ("digits", {"methods": "fedavgg"}, "Did you mean 'fedavg'"),
        ("digits", {"methods": "local"}, "name a method besides local"),
        ("digitz", {}, "unknown task 'digitz'"),
        (fl.task("digits", clients=2), {}, "needs at least three clients, but this federation has 2"),
        (fl.task("digits", clients=5, test_share=0.0), {}, "test data"),
        (fl.task_of(federation([9, 9, 9]), mlp()), {}, "no client has a validation part"),
        ("digits", {"rounds": 0}, "rounds=0"),
        ("digits", {"local": {"lr": -1.0}}, "lr=-1"),
    ],
)
def test_what_cannot_be_advised_on_gets_a_sentence_and_leaves_nothing(task, how, part, tmp_path):
    with pytest.raises(FedloomError, match=part):
        fl.advise(task, out=tmp_path / "a", **how)
    assert list(tmp_path.iterdir()) == []


def test_methods_none_of_which_can_run_are_refused_with_a_sentence():
    headless = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(20, 5))
    own = federation([30, 20, 10])
    own = replace(own, valid=own.train)
    with pytest.raises(FedloomError, match="fewer than two methods can run"):
        fl.advise(fl.task_of(own, headless), methods="fedper", rounds=2, local={"lr": 1e20})


def test_an_object_of_ones_own_with_validation_parts_is_advised_on(monkeypatch):
    own = federation([30, 24, 18, 12, 6])
    task = fl.task_of(replace(own, valid=own.train), mlp())
    short(monkeypatch, 1)
    advice = fl.advise(task, minutes=20, methods="fedavg", rounds=2)
    assert advice.task == "own data"
    assert advice.overall.clients == 5
