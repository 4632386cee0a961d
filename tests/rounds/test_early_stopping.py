"""Early stopping: which round is the best, when a run ends, and that it ends with the best round's models."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.rounds.early_stopping import BestSoFar, EarlyStopping, best_so_far
from support.folders import stop_after, written

VALID = "client_model/own_validation/accuracy/mean"
TEST = "client_model/own_test/accuracy/mean"
RULE = {"patience": 2}


def records(*values: float | None, metric: str = VALID) -> list[dict]:
    """Records of round 0, 1, ... in which a metric was measured or not."""
    return [{"round": n, "metrics": {} if v is None else {metric: v}} for n, v in enumerate(values)]


@pytest.mark.parametrize(
    ("values", "patience", "min_delta", "expected"),
    [
        ((0.9, 0.1), 1, 0.0, BestSoFar(1, False)),  # the untrained model is no candidate
        ((0.0, 0.5, 0.4), 1, 0.0, BestSoFar(1, True)),
        ((0.0, 0.5, 0.5), 1, 0.0, BestSoFar(1, True)),  # as good is not better
        ((0.0, 0.5, 0.4, 0.6, 0.5), 2, 0.0, BestSoFar(3, False)),
        ((0.0, 0.5, 0.4, 0.6, 0.5, 0.6), 2, 0.0, BestSoFar(3, True)),
        ((0.0, 0.5, 0.55, 0.59, 0.7), 2, 0.1, BestSoFar(1, True)),  # 0.7 comes too late
        ((0.0, 0.5, 0.55, 0.61), 2, 0.1, BestSoFar(3, False)),
        ((0.0, None, 0.5, None, 0.4, None, 0.3), 2, 0.0, BestSoFar(2, True)),  # patience counts evaluations
        ((0.5, None, None), 1, 0.0, None),
    ],
)
def test_the_best_round_by_hand(values, patience, min_delta, expected):
    assert best_so_far(records(*values), EarlyStopping(patience, VALID, min_delta)) == expected


def test_a_loss_is_better_when_it_is_lower():
    loss = "client_model/own_validation/loss/mean"
    found = best_so_far(records(9.0, 3.0, 2.0, 2.5, metric=loss), EarlyStopping(2, loss))
    assert found == BestSoFar(2, False)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 5))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy
def test_nothing_after_the_end_changes_the_best_round(values, patience):
    rule = EarlyStopping(patience, VALID)
    found = best_so_far(records(0.0, *values), rule)
    upto = [best_so_far(records(0.0, *values[:n]), rule) for n in range(1, len(values) + 1)]
    ends = [place for place, one in enumerate(upto, 1) if one.is_over]
    if ends:
        assert found == upto[ends[0] - 1]
        assert ends[0] - found.best == patience
    else:
        assert values[found.best - 1] == max(values)


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=4, alpha=0.3, valid_share=0.2)


HOW = {"rounds": 12, "local": {"lr": 0.5}, "early_stopping": RULE}


@pytest.fixture(scope="module")
def ended(task, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ended") / "run"
    return fl.run(task, "fedper", out=folder, **HOW)


def test_a_run_ends_after_its_patience_with_the_models_of_its_best_round(task, ended):
    best, last = ended.final_round, ended.records[-1]["round"]
    assert best == last - RULE["patience"] < 12
    values = dict(zip(*ended.series(VALID), strict=True))
    assert values[best] == max(value for number, value in values.items() if number)
    shorter = fl.run(task, "fedper", rounds=best, local={"lr": 0.5})
    assert ended.clients == shorter.clients
    assert ended.last(TEST) == shorter.last(TEST)
    for client in range(4):
        mine, other = (run.model(task, client=client).state_dict() for run in (ended, shorter))
        assert all(torch.equal(mine[name], other[name]) for name in other)


def test_memory_and_folder_end_alike(task, ended):
    run = fl.run(task, "fedper", **HOW)
    assert (run.final_round, run.clients, run.records) == (ended.final_round, ended.clients, ended.records)


@pytest.mark.parametrize("stop", [1, "best", "last"])
def test_a_stop_changes_no_byte(stop, task, ended, tmp_path):
    at = {"best": ended.final_round, "last": ended.records[-1]["round"]}.get(stop, stop)
    with pytest.raises(KeyboardInterrupt):
        fl.run(task, "fedper", out=tmp_path / "cut", observers=[stop_after(at)], **HOW)
    fl.resume(tmp_path / "cut")
    assert written(tmp_path / "cut") == written(ended.folder)


def test_a_finished_run_is_resumed_to_the_same_bytes_and_goes_on_when_it_may(task, ended, tmp_path):
    fl.run(task, "fedper", out=tmp_path / "again", **HOW)
    fl.resume(tmp_path / "again")
    assert written(tmp_path / "again") == written(ended.folder)
    few = ended.final_round + 1
    fl.run(task, "fedper", out=tmp_path / "few", **{**HOW, "rounds": few})
    fl.resume(tmp_path / "few", rounds=12)
    assert written(tmp_path / "few") == written(ended.folder)


def test_a_comparison_stops_each_run_by_itself_and_says_nothing_of_rounds(task):
    found = fl.compare(task, ["fedper", "local"], **HOW)
    rounds = {label: runs[0].records[-1]["round"] for label, runs in found.items()}
    assert rounds["fedper"] != rounds["local"]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"early_stopping": {"patience": 0}}, "patience=0 .*: it must be at least 1"),
        ({"early_stopping": {"patience": 2, "min_delta": -1}}, "min_delta=-1 .*: it must be at least 0"),
        ({"early_stopping": {"patience": 2, "min_delta": math.nan}}, "it must be a finite number"),
        ({"early_stopping": {"patience": 2, "metric": TEST}}, "it must be measured on validation data"),
        ({"early_stopping": {"patience": 2, "metric": VALID.replace("cc", "c")}}, "is not measured in this run"),
        ({"early_stopping": {"patience": 2}, "eval_every": 0}, "needs evaluations"),
        ({"early_stopping": {"patiense": 2}}, "Did you mean 'early_stopping.patience'"),
    ],
)
def test_a_rule_that_cannot_work_is_one_sentence(how, message, task):
    with pytest.raises(FedloomError, match=message):
        fl.run(task, rounds=2, **how)


def test_data_without_validation_parts_are_refused_with_the_setting():
    with pytest.raises(FedloomError, match=r"set task\.valid_share"):
        fl.run(fl.task("digits", clients=4), rounds=2, early_stopping=RULE)
