"""The copy of a run's folder is a run that continues to the same bytes, whenever it was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from support.folders import stop_after, written
from support.synthetic import federation, mlp

HOW: dict[str, Any] = {"rounds": 6, "local": {"epochs": 1, "batch_size": 16}, "selection": {"number": 2}}


def task() -> Task:
    return Task("own", federation([20, 9, 14, 31]), mlp())


@pytest.mark.parametrize("method", ["fedavg", "ditto"])
def test_the_copy_of_a_finished_run_is_the_run(tmp_path: Path, method: str) -> None:
    fl.run(task(), method, out=tmp_path / "run", callbacks=[fl.CopyCheckpoints(tmp_path / "copy")], **HOW)
    assert written(tmp_path / "copy") == written(tmp_path / "run")
    assert fl.History.load(tmp_path / "copy") == fl.History.load(tmp_path / "run")


@pytest.mark.parametrize("at", [1, 3, 5])
def test_a_copy_continues_when_the_run_is_lost(tmp_path: Path, at: int) -> None:
    fl.run(task(), "ditto", out=tmp_path / "whole", **HOW)
    copies = fl.CopyCheckpoints(tmp_path / "copy")
    with pytest.raises(KeyboardInterrupt):
        fl.run(task(), "ditto", out=tmp_path / "run", callbacks=[copies, stop_after(at)], **HOW)
    fl.resume(tmp_path / "copy", task=task())
    assert written(tmp_path / "copy") == written(tmp_path / "whole")


def test_a_resumed_run_goes_on_copying(tmp_path: Path) -> None:
    copies = fl.CopyCheckpoints(tmp_path / "copy")
    with pytest.raises(KeyboardInterrupt):
        fl.run(task(), out=tmp_path / "run", callbacks=[copies, stop_after(3)], **HOW)
    fl.resume(tmp_path / "run", task=task(), callbacks=[copies])
    assert written(tmp_path / "copy") == written(tmp_path / "run")
    fl.resume(tmp_path / "run", task=task(), rounds=8, callbacks=[copies])
    assert written(tmp_path / "copy") == written(tmp_path / "run")


def test_each_run_of_a_comparison_has_a_copy_below_the_folder(tmp_path: Path) -> None:
    copies = fl.CopyCheckpoints(tmp_path / "copy")
    fl.compare(task(), ["fedavg", "local"], out=tmp_path / "plan", callbacks=[copies], **HOW)
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["fedavg-seed0", "local-seed0"]
    assert written(tmp_path / "copy" / "local-seed0") == written(tmp_path / "plan" / "local-seed0")


def test_what_cannot_be_copied_is_refused_before_any_round(tmp_path: Path) -> None:
    seen: list[int] = []
    how: dict[str, Any] = {**HOW, "observers": [lambda record: seen.append(record["round"])]}
    with pytest.raises(FedloomError, match="this run stays in memory: give out= too"):
        fl.run(task(), callbacks=[fl.CopyCheckpoints(tmp_path / "copy")], **how)
    with pytest.raises(FedloomError, match="is the folder of the run itself"):
        fl.run(task(), out=tmp_path / "run", callbacks=[fl.CopyCheckpoints(tmp_path / "run")], **how)
    fl.run(task(), "local", out=tmp_path / "other", **HOW)
    with pytest.raises(FedloomError, match="contains another run: name another folder"):
        fl.run(task(), out=tmp_path / "run", callbacks=[fl.CopyCheckpoints(tmp_path / "other")], **how)
    (tmp_path / "file").touch()
    with pytest.raises(FedloomError, match="in cannot be written"):
        fl.run(task(), out=tmp_path / "run", callbacks=[fl.CopyCheckpoints(tmp_path / "file" / "in")], **HOW)
    private = {"aggregation": {"name": "privatemean", "noise": 1.0, "clip": 1.0}, "rounds": 2}
    with pytest.raises(FedloomError, match="this run spends privacy"):
        fl.run(task(), out=tmp_path / "run", callbacks=[fl.CopyCheckpoints(tmp_path / "copy")], **private)
    assert seen == []
