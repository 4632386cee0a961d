"""A sweep's rows are its runs' own numbers, and its verdict claims no more than paired seeds allow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedloom.core.errors import FedloomError
from fedloom.runs.plans.sweep import Sweep
from fedloom.runs.plans.sweep_table import best_row, setting_cells, sweep_verdict
from fedloom.runs.results.summaries import CLIENTS
from support.sweeps import VALIDATION, finished_sweep

LOSS = "client_model/own_validation/loss/mean"


def test_rows_are_means_over_seeds_with_the_best_first() -> None:
    rows = finished_sweep({"local.lr": [1, 2, 3]}, [[0.2, 0.4], [0.6, 0.8], [0.5, 0.5]]).rows
    assert [row["settings"]["local.lr"] for row in rows] == [2, 3, 1]
    assert rows[0]["means"][CLIENTS] == pytest.approx(0.7)
    assert rows[0]["stds"][CLIENTS] == pytest.approx(np.std([0.6, 0.8], ddof=1))
    assert (rows[0]["megabytes_up"], rows[0]["megabytes_between"], rows[0]["steps"]) == (1.0, 3.0, 5)
    assert rows[0]["megabytes_sent"] == 4.0


def test_level_with_the_best_is_what_paired_seeds_do_not_tell_apart() -> None:
    scores = [[0.70, 0.72, 0.75], [0.69, 0.725, 0.74], [0.5, 0.52, 0.551]]
    rows = finished_sweep({"local.lr": [1, 2, 3]}, scores).rows
    assert [row["mark"] for row in rows] == ["best", "level", ""]
    behind = rows[2]["behind"]
    assert behind["lead"] == pytest.approx(0.2, abs=1e-3)
    assert behind["low"] < behind["lead"] < behind["high"]
    assert behind["p"] < 0.05
    assert (behind["seeds"], behind["established"], rows[0]["behind"]) == (3, True, None)
    words = sweep_verdict(rows, VALIDATION, [CLIENTS])
    assert "It cannot be told apart from lr=2 (paired over 3 seeds, Holm over 3 pairs, 95 %)." in words
    clear = finished_sweep({"local.lr": [1, 2]}, [[0.70, 0.80, 0.90], [0.69, 0.791, 0.889]])
    assert "It is better than all others (paired over 3 seeds, 95 %)" in clear.verdict
    alone = finished_sweep({"local.lr": [1, 2]}, [[0.70], [0.69]])
    assert [(row["mark"], row["behind"]) for row in alone.rows] == [("best", None), ("", None)]
    assert "One seed does not establish its lead" in alone.verdict


def test_two_seeds_claim_nothing_however_clear_they_are() -> None:
    """A t of two differences is established by luck; the table of a comparison asks for three seeds too."""
    two = finished_sweep({"local.lr": [1, 2]}, [[0.90, 0.91], [0.10, 0.1101]])
    assert [(row["mark"], row["behind"], row["tested"]) for row in two.rows] == [("best", None, None), ("", None, None)]
    assert "Two seeds do not establish its lead: use --seeds 3 or more." in two.verdict
    assert "better than all others" not in two.verdict


def test_validation_data_choose_and_test_data_are_reported() -> None:
    sweep = finished_sweep({"local.lr": [1, 2]}, [[0.7], [0.6]])
    for record in sweep.runs["lr=2"][0].records:
        record["metrics"][VALIDATION] = 0.9
    rows = sweep.rows
    assert best_row(rows)["settings"] == {"local.lr": 2}
    assert (rows[0]["means"][VALIDATION], rows[0]["means"][CLIENTS]) == (0.9, 0.6)
    assert f"Best by {VALIDATION}: lr=2 with 90.0 %. Its {CLIENTS} is 60.0 %." in sweep.verdict


def test_the_lowest_loss_is_best() -> None:
    sweep = finished_sweep({"local.lr": [1, 2]}, [[0.7], [0.6]])
    for runs in sweep.runs.values():
        for record in runs[0].records:
            record["metrics"][LOSS] = record["metrics"][CLIENTS]
    rows = Sweep(sweep.grid, sweep.settings, sweep.runs, (CLIENTS,), LOSS).rows
    assert rows[0]["settings"] == {"local.lr": 2}


def test_samples_that_were_set_aside_are_said() -> None:
    sweep = finished_sweep({"local.lr": [1, 2]}, [[0.7], [0.6]])
    assert "set aside" not in sweep.verdict
    assert "20 % of each one's samples were set aside" in str(replace(sweep, set_aside=0.2))


def test_the_verdict_names_the_edge_of_a_grid_and_only_there() -> None:
    inside = finished_sweep({"local.lr": [1, 2, 3]}, [[0.2], [0.6], [0.5]]).rows
    assert "edge" not in sweep_verdict(inside, VALIDATION, [CLIENTS])
    edge = finished_sweep({"local.lr": [1, 2, 3]}, [[0.2], [0.6], [0.9]]).rows
    assert "The best local.lr is at the edge" in sweep_verdict(edge, VALIDATION, [CLIENTS])
    words = finished_sweep({"method": ["a", "b"]}, [[0.2], [0.6]]).rows
    assert "edge" not in sweep_verdict(words, VALIDATION, [CLIENTS])


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


def sweep_beside_baseline(value: float) -> Sweep:
    swept = finished_sweep({"local.lr": [0.1, 0.2]}, [[0.5, 0.52, 0.51], [0.4, 0.41, 0.45]])
    metrics = {CLIENTS: value, VALIDATION: value}
    for runs in swept.runs.values():
        for seed, run in enumerate(runs):
            run.config |= {"seed": seed}
            run.baselines = [{"name": "majority", "words": "guessing", "metrics": metrics, "clients": []}]
    return swept


def test_baselines_are_rows_and_come_first_if_no_combination_is_better() -> None:
    swept = sweep_beside_baseline(0.6)
    (row,) = swept.baselines
    assert (row["label"], row["means"][CLIENTS], row["mark"]) == ("baseline: majority", pytest.approx(0.6), "baseline")
    assert setting_cells(swept.grid, row) == ["baseline: majority"]
    assert swept.verdict.startswith("lr=0.1 (51.0 %) is not better than guessing (60.0 %)")
    assert replace(swept, grid={"task.alpha": [0.1]}).baselines == []


def test_a_sweep_that_learnt_something_says_the_baseline_last() -> None:
    verdict = sweep_beside_baseline(0.1).verdict
    assert verdict.startswith("Best by")
    assert verdict.endswith("For comparison: guessing (10.0 %).")
