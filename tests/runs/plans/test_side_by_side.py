"""Runs side by side are the runs one after another, and none outlives its plan."""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.registry.user_errors import WorkerError
from fedloom.runs.callbacks.trackers import Tracker
from fedloom.runs.plans.compare import make_plan, run_comparison, write_comparison
from fedloom.runs.plans.members import Member, RunFactory, share_of_cores
from fedloom.runs.plans.side_by_side import RunToDo, side_by_side
from support.synthetic import federation, mlp

VALUES = {"task": {"name": "digits", "clients": 4}, "rounds": 3}


def waits_forever(_: Any) -> None:
    signal.pause()


def refused(_: Any) -> None:
    raise FedloomError("no")


def broken(_: Any) -> None:
    raise KeyError("logits")


def killed(_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def compare(folder: Path, cores: int, observers_of: Any = lambda *_: ()) -> dict[str, list[fl.History]]:
    plan = write_comparison(folder, make_plan(VALUES, ["fedavg", "scaffold", "local"], 2))
    return run_comparison(folder, plan, observers_of, RunFactory(cores=cores))


def content(folder: Path) -> dict[str, bytes]:
    """The bytes of all files of a plan, but for how long its rounds took."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "timings.jsonl")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("cores", [2, 3])
def test_a_comparison_has_the_same_bytes_with_any_number_of_cores(tmp_path: Path, cores: int) -> None:
    heard: dict[tuple[str, int], list[int]] = {}

    def observers_of(label: str, seed: int) -> list[Any]:
        return [lambda record: heard.setdefault((label, seed), []).append(record["round"])]

    one = compare(tmp_path / "one", 1)
    more = compare(tmp_path / "more", cores, observers_of)
    assert one == more
    assert [torch.equal(a.row, b.row) for a, b in zip(one["fedavg"], more["fedavg"], strict=True)] == [True, True]
    assert content(tmp_path / "one") == content(tmp_path / "more")
    assert heard == {(label, seed): [0, 1, 2, 3] for label in one for seed in (0, 1)}


def test_a_comparison_that_was_stopped_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    whole = compare(tmp_path / "whole", 1)

    def stop(record: dict[str, Any]) -> None:
        if record["round"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(tmp_path / "cut", 2, lambda label, _: [stop] if label == "scaffold" else [])
    assert multiprocessing.active_children() == []
    assert compare(tmp_path / "cut", 2) == whole
    assert content(tmp_path / "whole") == content(tmp_path / "cut")


def test_runs_of_python_objects_in_memory_need_nothing_that_can_be_pickled() -> None:
    """A task, and a method of one's own, are closures here; runs have two workers each where there are four cores."""

    class Mine(fl.FedAvg):
        """A class that only this function has."""

    def of(_: int) -> fl.Task:
        return fl.task_of(federation([9, 6]), mlp())

    for cores in (2, 4):
        found = fl.compare(of, [Mine(), "local"], seeds=1, rounds=2, workers=cores)
        alone = fl.compare(of, [Mine(), "local"], seeds=1, rounds=2)
        assert [one.records for (one,) in found.values()] == [one.records for (one,) in alone.values()]


def test_the_next_run_is_asked_for_when_a_core_is_free() -> None:
    ended: list[int] = []

    def runs() -> Iterator[RunToDo[int, int]]:
        for number in range(6):
            assert number - len(ended) <= 2
            yield RunToDo(number, str(number), lambda _, number=number: number)  # type: ignore[misc]

    for key, result in side_by_side(runs(), 2):
        assert key == result
        ended.append(key)
    assert sorted(ended) == list(range(6))


@pytest.mark.parametrize(
    ("do", "error", "says"),
    [
        (refused, FedloomError, "^no$"),
        (broken, WorkerError, "KeyError: 'logits'"),
        (killed, FedloomError, "the process of mine ended without a word: is there enough memory"),
    ],
)
def test_what_ends_a_run_ends_all(do: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        list(side_by_side([RunToDo(0, "waits", waits_forever), RunToDo(1, "mine", do)], 2))
    assert multiprocessing.active_children() == []


def test_trackers_are_closed_once_and_here() -> None:
    closed: list[int] = []
    logged: list[int] = []
    tracker = Tracker(lambda _, number: logged.append(number), lambda: closed.append(os.getpid()))

    def do(observers: Any) -> None:
        for callback in observers:
            callback.round_ends(
                {"metrics": {}, "round": 7, "bytes_down": 0, "bytes_up": 0, "bytes_between": 0, "steps": 0}
            )

    list(side_by_side([RunToDo(0, "a", do, [tracker]), RunToDo(1, "b", do)], 2))
    assert (logged, closed) == ([7], [os.getpid()])


@pytest.mark.parametrize(
    ("cores", "missing", "share"),
    [(1, 5, (1, 1)), (2, 5, (2, 1)), (4, 1, (1, 4)), (4, 2, (2, 2)), (5, 2, (2, 2)), (4, 0, (1, 4))],
)
def test_cores_are_shared_by_the_runs_that_are_left(cores: int, missing: int, share: tuple[int, int]) -> None:
    member = Member("a", "a", {"workers": cores})
    assert share_of_cores(member, RunFactory(), missing) == share
    assert share_of_cores(Member("a", "a", {}), RunFactory(cores=cores), missing) == share


def test_no_run_outlives_a_plan_that_is_killed() -> None:
    code = (
        "import os, sys\n"
        "from fedloom.runs.plans.side_by_side import RunToDo, side_by_side\n"
        "def do(_):\n"
        "    print('on', flush=True)\n"
        "    import signal; signal.pause()\n"
        "list(side_by_side([RunToDo(0, 'a', do), RunToDo(1, 'b', do)], 2))\n"
    )
    plan = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert plan.stdout is not None
    assert [plan.stdout.readline() for _ in range(2)] == ["on\n"] * 2
    plan.kill()
    plan.wait()
    # The runs hold the other end of this pipe: it ends when the last of them has.
    assert select.select([plan.stdout], [], [], 60)[0]
    assert plan.stdout.read() == ""
    plan.stdout.close()
