"""A sweep's table and figure show its runs' own numbers and claim no more than the spread allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedloom.core.errors import FedloomError
from fedloom.report import sweep as report
from fedloom.runs.history import CLIENTS, GLOBAL, History
from fedloom.runs.plans.grid import combinations, label
from fedloom.runs.plans.sweep import Sweep

LOSS = "client_model/own_test/loss/mean"


def history(value: float, stopped: str | None = None) -> History:
    records = [
        {"round": n, "selected": [0], "metrics": {CLIENTS: v}, "steps": 5 * n}
        | {"bytes_up": 10**6 * n, "bytes_down": 0, "bytes_between": 3 * 10**6 * n}
        for n, v in enumerate((0.1, value))
    ]
    return History({"method": {"name": "m"}, "task": {"name": "t"}}, records, stopped=stopped)


def swept(grid: dict[str, list[Any]], scores: list[list[float]], metrics: tuple[str, ...] = (CLIENTS,)) -> Sweep:
    chosen = combinations(grid)
    runs = {label(c): [history(value) for value in values] for c, values in zip(chosen, scores, strict=True)}
    return Sweep(grid, {label(c): c for c in chosen}, runs, metrics)


def test_rows_are_means_over_seeds_with_the_best_first() -> None:
    rows = report.rows(swept({"local.lr": [1, 2, 3]}, [[0.2, 0.4], [0.6, 0.8], [0.5, 0.5]]))
    assert [row["settings"]["local.lr"] for row in rows] == [2, 3, 1]
    assert rows[0]["means"][CLIENTS] == pytest.approx(0.7)
    assert rows[0]["stds"][CLIENTS] == pytest.approx(np.std([0.6, 0.8], ddof=1))
    assert (rows[0]["megabytes_up"], rows[0]["megabytes_between"], rows[0]["steps"]) == (1.0, 3.0, 5)
    assert rows[0]["megabytes_sent"] == 4.0


def test_level_with_the_best_is_what_the_spread_does_not_tell_apart() -> None:
    rows = report.rows(swept({"local.lr": [1, 2, 3]}, [[0.70, 0.72], [0.69, 0.71], [0.5, 0.52]]))
    assert [row["mark"] for row in rows] == ["best", "level", ""]
    alone = report.rows(swept({"local.lr": [1, 2]}, [[0.70], [0.69]]))
    assert [row["mark"] for row in alone] == ["best", ""]
    assert "single seed" in report.verdict(alone, [CLIENTS])


def test_the_lowest_loss_is_best() -> None:
    sweep = swept({"local.lr": [1, 2]}, [[0.7], [0.6]])
    for runs in sweep.runs.values():
        for record in runs[0].records:
            record["metrics"][LOSS] = record["metrics"][CLIENTS]
    rows = report.rows(Sweep(sweep.grid, sweep.settings, sweep.runs, (LOSS,)))
    assert rows[0]["settings"] == {"local.lr": 2}


def test_the_verdict_names_the_edge_of_a_grid_and_only_there() -> None:
    inside = report.rows(swept({"local.lr": [1, 2, 3]}, [[0.2], [0.6], [0.5]]))
    assert "edge" not in report.verdict(inside, [CLIENTS])
    edge = report.rows(swept({"local.lr": [1, 2, 3]}, [[0.2], [0.6], [0.9]]))
    assert "The best local.lr is at the edge" in report.verdict(edge, [CLIENTS])
    words = report.rows(swept({"method": ["a", "b"]}, [[0.2], [0.6]]))
    assert "edge" not in report.verdict(words, [CLIENTS])


def test_a_stopped_combination_is_never_best() -> None:
    sweep = swept({"local.lr": [1, 2]}, [[0.9], [0.5]])
    sweep.runs["lr=1"][0].stopped = "it diverged"
    rows = report.rows(sweep)
    assert [row["mark"] for row in rows] == ["best", "left out"]
    assert report.best(rows)["settings"] == {"local.lr": 2}
    sweep.runs["lr=2"][0].stopped = "it diverged too"
    with pytest.raises(FedloomError, match="no combination"):
        report.best(report.rows(sweep))
    with pytest.raises(FedloomError, match="No combination"):
        report.figure(sweep)
    assert "it diverged too" in report.page(sweep)


def test_one_key_is_a_line_in_the_order_of_its_values() -> None:
    axes = report.figure(swept({"local.lr": [1, 0.01, 0.1]}, [[0.3], [0.1], [0.2]])).axes[0]
    line = axes.lines[0]
    assert list(line.get_xdata()) == [0.01, 0.1, 1]
    assert list(line.get_ydata()) == [0.1, 0.2, 0.3]
    assert axes.get_xscale() == "log"


def test_a_key_of_words_has_a_place_for_each_and_no_line_between() -> None:
    axes = report.figure(swept({"method": ["fedavg", "local"]}, [[0.3, 0.5], [0.1, 0.1]])).axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["fedavg", "local"]
    assert list(axes.lines[0].get_ydata()) == pytest.approx([0.4, 0.1])
    assert axes.lines[0].get_linestyle() == "None"


def test_two_keys_are_a_map_whose_cells_say_their_numbers() -> None:
    axes = report.figure(swept({"method.mu": [1, 2], "local.lr": [3, 4]}, [[0.1], [0.2], [0.3], [0.425]])).axes[0]
    cells = {text.get_position(): text.get_text() for text in axes.texts if "." in text.get_text()}
    assert cells == {(0, 0): "10.0", (1, 0): "20.0", (0, 1): "30.0", (1, 1): "42.5"}
    strength = axes.images[0].get_array()[..., 3]
    assert strength[1, 1] == strength.max()
    assert strength[0, 0] == strength.min()


def test_more_keys_are_the_best_combinations_as_dots() -> None:
    grid = {"a": [1, 2, 3], "b": [1, 2, 3], "c": [1, 2, 3]}
    axes = report.figure(swept(grid, [[n / 100] for n in range(27)])).axes[0]
    assert list(axes.lines[0].get_xdata()) == [n / 100 for n in range(26, 6, -1)]
    assert axes.get_yticklabels()[0].get_text() == "a=3 b=3 c=3"


def test_a_key_with_one_value_does_not_count_as_an_axis() -> None:
    axes = report.figure(swept({"method": ["fedavg"], "local.lr": [1, 2]}, [[0.1], [0.2]])).axes[0]
    assert axes.get_xlabel() == "local.lr"


def test_the_page_is_one_file_with_the_table_and_escapes_what_it_shows() -> None:
    text = report.page(swept({"method": ["<b>", "local"]}, [[0.3], [0.1]], (CLIENTS, GLOBAL)))
    assert "<b>" not in text.split("<h2")[2]
    assert "&lt;b&gt;" in text
    assert "not measured" in text
    assert "<svg" in text
    assert "http" not in text.split("<body>")[1].replace("http://www.w3.org", "")
