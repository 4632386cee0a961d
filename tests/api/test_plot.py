"""``fl.plot``: several runs in one figure."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError


def test_runs_that_differ_in_a_setting_are_lines_of_their_own(tmp_path):
    task = fl.task("digits", clients=4)
    runs = [fl.run(task, rounds=1, local={"lr": lr}) for lr in (0.05, 0.1)]
    fl.plot([*runs, fl.run(task, "fedprox", rounds=1)], tmp_path / "runs.svg")
    drawn = (tmp_path / "runs.svg").read_text()
    for name in ("fedavg local.lr=0.05", "fedavg local.lr=0.1", "fedprox"):
        assert name in drawn
    assert fl.plot(runs[0]).axes


def test_a_figure_that_cannot_be_written_is_one_sentence(tmp_path):
    run = fl.run(fl.task("digits", clients=4), rounds=1)
    for path in (tmp_path / "a.nothing", tmp_path / "missing" / "a.png"):
        with pytest.raises(FedloomError, match="cannot be written"):
            fl.plot(run, path)
    with pytest.raises(FedloomError, match="axis"):
        fl.plot(run, axis="weeks")
