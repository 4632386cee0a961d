"""A bar is shown to people and not to pipes, and counts the rounds of all runs."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import fedloom as fl
from fedloom.core.task import Task
from fedloom.runs.callbacks.progress import ProgressBar, bar_html, in_notebook, show_progress
from support.synthetic import federation, mlp

HOW: dict[str, Any] = {"rounds": 2, "local": {"epochs": 1, "batch_size": 16}}


def task() -> Task:
    return Task("own", federation([20, 9]), mlp())


def test_a_pipe_gets_no_bar_unless_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    fl.run(task(), **HOW)
    assert capsys.readouterr().err == ""
    fl.run(task(), progress=True, **HOW)
    seen = capsys.readouterr().err
    assert "fedavg" in seen
    assert "2/2" in seen
    assert "clients" in seen


def test_one_bar_counts_the_rounds_of_all_runs() -> None:
    drawn: list[tuple[str, int, int]] = []
    bar = ProgressBar(lambda label, done, total, _: drawn.append((label, done, total)), runs=2)
    for method in ("fedavg", "local"):
        fl.run(task(), method, callbacks=bar.of_run(), **HOW)
    assert drawn[0] == ("fedavg with seed 0", 0, 4)
    assert [done for _, done, _ in drawn] == [0, 0, 1, 2, 2, 2, 2, 3, 4, 4]
    assert drawn[-1] == ("local with seed 0", 4, 4)


def test_a_run_that_ends_early_leaves_nothing_to_do() -> None:
    class Stop(fl.Callback):
        def round_begins(self, number: int) -> None:
            raise fl.StopRun("enough")

    drawn: list[tuple[int, int]] = []
    bar = ProgressBar(lambda _, done, total, __: drawn.append((done, total)), runs=2)
    fl.run(task(), callbacks=[Stop(), *bar.of_run()], **HOW)
    assert drawn[-1] == (0, 2)
    fl.run(task(), callbacks=bar.of_run(), **HOW)
    assert drawn[-1] == (2, 2)


def test_a_notebook_shows_the_bar_in_its_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    handle = SimpleNamespace(update=lambda page: shown.append(page))
    display = SimpleNamespace(HTML=str, display=lambda *_, **__: handle)
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=True), display=display)
    monkeypatch.setitem(sys.modules, "IPython", shell)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", display)  # type: ignore[arg-type]
    assert in_notebook()
    fl.run(task(), **HOW)
    assert "round 2/2" in shown[-1]
    assert "left" in shown[-3]
    fl.run(task(), progress=False, **HOW)
    assert len(shown) == 5


def test_no_notebook_is_seen_where_there_is_none() -> None:
    assert not in_notebook()
    with show_progress(None) as bar:
        assert bar.of_run() == []


def test_the_bar_is_escaped_and_has_no_colour_of_its_own() -> None:
    page = bar_html("<b>mine</b>", 3, 10, "clients 90.0%", 75.0)
    assert "&lt;b&gt;mine" in page
    assert 'value="3" max="10"' in page
    assert "round 3/10 · clients 90.0% · about 1:15 left" in page
    assert "color" not in page
    assert "left" not in bar_html("mine", 10, 10, "", 0.0)
