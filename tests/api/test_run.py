"""``fl.run`` into a folder leaves what ``fedloom run`` leaves, with the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fedloom as fl
from fedloom.core.task import Task
from support.folders import stop_after
from support.synthetic import federation, mlp

HOW: dict[str, Any] = {"rounds": 2, "local": {"epochs": 1, "batch_size": 16}}


def task() -> Task:
    return Task("own", federation([20, 9]), mlp())


@pytest.mark.usefixtures("run_reports")
def test_a_run_in_a_folder_has_its_report(tmp_path: Path) -> None:
    fl.run(task(), out=tmp_path / "run", **HOW)
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "fedavg" in page


@pytest.mark.usefixtures("run_reports")
def test_a_resumed_run_has_its_report(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fl.run(task(), out=tmp_path / "run", observers=[stop_after(1)], **HOW)
    assert not (tmp_path / "run" / "report.html").exists()
    fl.resume(tmp_path / "run", task=task())
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.usefixtures("run_reports")
def test_a_run_that_measures_nothing_has_no_report(tmp_path: Path) -> None:
    fl.run(task(), out=tmp_path / "run", eval_every=0, **HOW)
    assert not (tmp_path / "run" / "report.html").exists()
