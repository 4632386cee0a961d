"""Figures show the histories' own numbers, and say so when there is nothing to show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from fedloom.core.errors import FedloomError
from fedloom.plotting.style import spread_apart
from fedloom.reports import figures
from fedloom.reports.client_figures import partition_figure, selection_figure, size_group_figure, spread_figure
from fedloom.runs.results.history import History
from support.histories import history


def lines(figure: Figure, panel: int = 0) -> dict[str, tuple[list[float], list[float]]]:
    drawn = [line for line in figure.axes[panel].lines if not str(line.get_label()).startswith("_")]
    return {str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata())) for line in drawn}


def test_accuracy_lines_are_the_means_over_seeds() -> None:
    figure = figures.score_figure(
        "round", {"a": [history([0.1, 0.4]), history([0.3, 0.6])], "b": [history([0.5, 0.7])]}
    )
    x, y = lines(figure)["a"]
    assert x == [0, 1]
    assert y == pytest.approx([0.2, 0.5])
    assert lines(figure, 1)["a"][1] == pytest.approx([0.1, 0.25])
    assert lines(figure)["b"][1] == [0.5, 0.7]


@pytest.mark.parametrize(("axis", "places"), [("round", [0, 1, 2]), ("megabytes", [0, 3, 6]), ("steps", [0, 7, 14])])
def test_axes_count_rounds_megabytes_and_steps_so_far(axis: str, places: list[float]) -> None:
    assert lines(figures.score_figure(axis, {"a": [history([0.1, 0.2, 0.3])]}))["a"][0] == pytest.approx(places)


def test_an_unknown_axis_is_named() -> None:
    with pytest.raises(FedloomError, match="unknown axis 'rounds'"):
        figures.score_figure("rounds", {"a": [history([0.1])]})


def test_a_single_run_shows_the_spread_over_clients() -> None:
    figure = figures.score_figure("round", {"a": [history([0.4, 0.8])]})
    assert len(figure.axes[0].collections) == 0
    (band,) = figure.axes[1].collections
    assert band.get_paths()[0].get_extents().ymin == pytest.approx(0.1)
    assert band.get_paths()[0].get_extents().ymax == pytest.approx(0.5)


def test_seeds_of_different_length_are_averaged_where_all_were_measured() -> None:
    runs = [history([0.2, 0.4, 0.6]), history([0.4, float("nan")], stopped="loss is NaN")]
    x, y = lines(figures.score_figure("round", {"a": runs}))["a"]
    assert (x, y) == ([0], pytest.approx([0.3]))


def test_a_method_that_sends_nothing_is_a_point_at_zero_megabytes() -> None:
    local = history([0.1, 0.6])
    for record in local.records:
        record |= {"bytes_up": 0, "bytes_down": 0}
    assert lines(figures.score_figure("megabytes", {"local": [local], "a": [history([0.1, 0.2])]}))["local"] == (
        [0],
        [0.6],
    )


def test_names_beside_lines_keep_their_distance_and_their_order() -> None:
    wanted = [0.9, 0.5, 0.51, 0.5, 1.0, 0.0]
    places = spread_apart(wanted, 0.1)
    assert np.all(np.diff(sorted(places)) >= 0.1 - 1e-9)
    assert min(places) >= 0
    assert max(places) <= 1 + 1e-9
    assert places[2] == max(places[1:4])
    assert spread_apart([0.2, 0.8], 0.1) == pytest.approx([0.2, 0.8])


def test_bytes_are_the_runs_totals_in_megabytes() -> None:
    figure = figures.traffic_figure({"a": [history([0.1, 0.2, 0.3])]})
    assert [bar.get_width() for bar in figure.axes[0].patches] == [2.0, 4.0]


def test_what_clients_send_to_each_other_is_a_third_bar_and_counts_as_sent() -> None:
    chain = history([0.1, 0.2, 0.3])
    for record in chain.records:
        record["bytes_between"] = 4_000_000 * bool(record["round"])
    bars = figures.traffic_figure({"a": [history([0.1, 0.2, 0.3])], "chain": [chain]}).axes[0].patches
    assert [bar.get_width() for bar in bars] == [2.0, 4.0, 0.0, 2.0, 4.0, 8.0]
    assert lines(figures.score_figure("megabytes", {"chain": [chain]}))["chain"][0] == pytest.approx([0, 7, 14])


def test_client_groups_show_the_groups_means() -> None:
    figure = size_group_figure({"a": [history([0.1], own=0.5)], "b": [history([0.1], own=0.7)]})
    assert [list(c.lines[0].get_ydata()) for c in figure.axes[0].containers] == [[0.5, 0.5], [0.7, 0.7]]


@pytest.mark.parametrize("clients", [1, 5, pytest.param(500, marks=pytest.mark.slow)])
def test_client_figures_draw_for_few_and_many_clients(clients: int) -> None:
    run = history([0.1, 0.2, 0.3], clients=clients)
    drawn = (
        spread_figure({"a": [run]}),
        size_group_figure({"a": [run]}),
        partition_figure(run),
    )
    for figure in (*drawn, selection_figure(run), figures.before_after_figure(run)):
        figure.canvas.draw()


def test_selection_counts_rounds_per_client() -> None:
    bars = selection_figure(history([0.1] * 6, clients=4)).axes[1].patches
    assert [bar.get_width() for bar in bars] == [1, 2, 1, 1]  # rounds 1 to 5 took clients 1, 2, 3, 0, 1


@pytest.mark.parametrize("draw", [partition_figure, selection_figure, figures.before_after_figure])
def test_what_was_not_measured_is_said_in_a_sentence(draw: Any) -> None:
    with pytest.raises(FedloomError, match=r"this run\."):
        draw(History({"method": {"name": "m"}}))
