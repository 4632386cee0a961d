"""A sweep's rows are its runs' own numbers, and its verdict claims no more than the spread allows."""

from __future__ import annotations

import numpy as np
import pytest

from fedloom.core.errors import FedloomError
from fedloom.runs.plans.sweep import Sweep
from fedloom.runs.plans.sweep_table import best_row, sweep_verdict
from fedloom.runs.statistics import CLIENTS
from support.sweeps import finished_sweep

LOSS = "client_model/own_test/loss/mean"


def test_rows_are_means_over_seeds_with_the_best_first() -> None:
    rows = finished_sweep({"local.lr": [1, 2, 3]}, [[0.2, 0.4], [0.6, 0.8], [0.5, 0.5]]).rows
    assert [row["settings"]["local.lr"] for row in rows] == [2, 3, 1]
    assert rows[0]["means"][CLIENTS] == pytest.approx(0.7)
    assert rows[0]["stds"][CLIENTS] == pytest.approx(np.std([0.6, 0.8], ddof=1))
    assert (rows[0]["megabytes_up"], rows[0]["megabytes_between"], rows[0]["steps"]) == (1.0, 3.0, 5)
    assert rows[0]["megabytes_sent"] == 4.0


def test_level_with_the_best_is_what_the_spread_does_not_tell_apart() -> None:
    rows = finished_sweep({"local.lr": [1, 2, 3]}, [[0.70, 0.72], [0.69, 0.71], [0.5, 0.52]]).rows
    assert [row["mark"] for row in rows] == ["best", "level", ""]
    alone = finished_sweep({"local.lr": [1, 2]}, [[0.70], [0.69]]).rows
    assert [row["mark"] for row in alone] == ["best", ""]
    assert "single seed" in sweep_verdict(alone, [CLIENTS])


def test_the_lowest_loss_is_best() -> None:
    sweep = finished_sweep({"local.lr": [1, 2]}, [[0.7], [0.6]])
    for runs in sweep.runs.values():
        for record in runs[0].records:
            record["metrics"][LOSS] = record["metrics"][CLIENTS]
    rows = Sweep(sweep.grid, sweep.settings, sweep.runs, (LOSS,)).rows
    assert rows[0]["settings"] == {"local.lr": 2}


def test_the_verdict_names_the_edge_of_a_grid_and_only_there() -> None:
    inside = finished_sweep({"local.lr": [1, 2, 3]}, [[0.2], [0.6], [0.5]]).rows
    assert "edge" not in sweep_verdict(inside, [CLIENTS])
    edge = finished_sweep({"local.lr": [1, 2, 3]}, [[0.2], [0.6], [0.9]]).rows
    assert "The best local.lr is at the edge" in sweep_verdict(edge, [CLIENTS])
    words = finished_sweep({"method": ["a", "b"]}, [[0.2], [0.6]]).rows
    assert "edge" not in sweep_verdict(words, [CLIENTS])


def test_a_stopped_combination_is_never_best() -> None:
    sweep = finished_sweep({"local.lr": [1, 2]}, [[0.9], [0.5]])
    sweep.runs["lr=1"][0].stopped = "it diverged"
    rows = sweep.rows
    assert [row["mark"] for row in rows] == ["best", "left out"]
    assert best_row(rows)["settings"] == {"local.lr": 2}
    sweep.runs["lr=2"][0].stopped = "it diverged too"
    with pytest.raises(FedloomError, match="No combination"):
        best_row(sweep.rows)
    with pytest.raises(FedloomError, match="No combination"):
        sweep.plot()
