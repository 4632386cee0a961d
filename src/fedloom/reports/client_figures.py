"""Figures of single clients: which data they hold, when they were selected, and how accurate their models are.

A mean over clients hides how much they differ. Every figure stays readable from one client to a thousand: dots and
bubbles for few clients, quantiles and a heat map for many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedloom.core.errors import FedloomError
from fedloom.plotting.partition import samples_figure
from fedloom.plotting.style import (
    BLUE,
    INK,
    MUTED,
    PAPER,
    blue_colormap,
    colour,
    name_width,
    new_figure,
    set_heading,
    shorten,
    show_percent,
    show_whole_numbers,
    widen_limits,
    with_style,
)
from fedloom.runs.results.history import History
from fedloom.runs.results.summaries import (
    GROUPS,
    Floats,
    Histories,
    client_count,
    client_scores,
    common_score,
    over_seeds,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_DOTS = 200  # per method; beyond, dots are evenly spaced quantiles
MOST_BARS = 60  # clients
MOST_CELLS = 2000  # of a raster whose cells are set apart by thin lines
MOST_NAMES = 20  # of clients beside a raster
MOST_LINES = 1000  # clients in a raster
GOLDEN = 0.6180339887498949


@with_style
def spread_figure(histories: Histories) -> Figure:
    """How the final score is distributed over clients, one line per method."""
    found = {name: np.sort(client_scores(runs)) for name, runs in histories.items()}
    score = common_score(histories)
    if not any(len(values) for values in found.values()):
        raise FedloomError(f"{score.heading} of single clients was not measured at the end of these runs.")
    figure = new_figure(10.0, 1.1 + 0.5 * len(found), left=name_width(found))
    axes = figure.add_subplot()
    thinned = any(len(values) > MOST_DOTS for values in found.values())
    for place, values in enumerate(found.values()):
        if len(values):
            _draw_strip(axes, place, values, colour(place))
        else:
            axes.text(0.01, place, "not measured", color=MUTED, va="center", transform=axes.get_yaxis_transform())
    pooled = " of all seeds" if any(len(runs) > 1 for runs in histories.values()) else ""
    dots = f"dots: {MOST_DOTS} evenly spaced quantiles of the clients" if thinned else "dots: clients"
    set_heading(
        axes,
        "Each client's model on its own test set, at the end",
        f"{dots}{pooled}; bar: middle half of the clients; line: median; diamond: mean",
    )
    axes.set_yticks(range(len(found)), [shorten(name) for name in found], color=INK)
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.set_xlabel(score.axis)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.02)
    if score.is_share:
        axes.set_xlim(widen_limits(axes.get_xlim()))
        show_percent(axes.xaxis)
    return figure


def _draw_strip(axes: Axes, place: int, values: Floats, hue: str) -> None:
    dots = values if len(values) <= MOST_DOTS else np.quantile(values, (np.arange(MOST_DOTS) + 0.5) / MOST_DOTS)
    jitter = (np.arange(len(dots)) * GOLDEN % 1 - 0.5) * 0.5  # even, and the same in every run
    axes.scatter(dots, place + jitter, s=11, color=hue, alpha=0.55, linewidths=0)
    low, median, high = np.quantile(values, (0.25, 0.5, 0.75))
    axes.barh(place, high - low, left=low, height=0.62, color=hue, alpha=0.16)
    axes.plot([median, median], [place - 0.31, place + 0.31], color=hue, linewidth=2.2)
    axes.plot(values.mean(), place, marker="D", markersize=5.5, color=hue, markeredgecolor=INK, markeredgewidth=0.8)


@with_style
def size_group_figure(histories: Histories) -> Figure:
    """The final score of small, intermediate and big clients."""
    groups = [g for g in GROUPS if any(len(client_scores(runs, g)) for runs in histories.values())]
    score = common_score(histories)
    if not groups:
        raise FedloomError(f"{score.heading} of single clients was not measured at the end of these runs.")
    several = min(len(runs) for runs in histories.values()) > 1
    figure = new_figure(10.0, 3.5, right=name_width(histories) + 0.2)
    axes = figure.add_subplot()
    step = min(0.14, 0.8 / len(histories))
    for place, (name, runs) in enumerate(histories.items()):
        offset = (place - (len(histories) - 1) / 2) * step
        marks = [(i, *_group_mark(runs, group, several)) for i, group in enumerate(groups)]
        x, y, error = (np.array(v, dtype=np.float64) for v in zip(*marks, strict=True))
        hue = colour(place)
        marker = "osD"[place // 7 % 3]
        if np.isnan(y).all():
            continue
        axes.errorbar(x + offset, y, error, color=hue, fmt=marker, markersize=6, elinewidth=1.4, label=shorten(name))
    what = "over seeds" if several else "over the clients of the group"
    set_heading(
        axes, "Each client's model on its own test set, by client size", f"error bar: ± 1 standard deviation {what}"
    )
    axes.set_xticks(range(len(groups)), [f"{group} clients" for group in groups], color=INK)
    for place, group in enumerate(groups):
        below: dict[str, Any] = {
            "xytext": (0, -27),
            "textcoords": "offset points",
            "xycoords": axes.get_xaxis_transform(),
        }
        axes.annotate(_group_size(histories, group), (place, 0), ha="center", color=MUTED, fontsize=8.5, **below)
    axes.set_xlim(-0.5, len(groups) - 0.5)
    axes.set_ylabel(score.axis)
    if score.is_share:
        axes.set_ylim(widen_limits(axes.get_ylim()))
        show_percent(axes.yaxis)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


def _group_mark(runs: Sequence[History], group: str, several: bool) -> tuple[float, float]:
    means = [values.mean() for values in (client_scores([run], group) for run in runs) if len(values)]
    mean, over = over_seeds(means)
    if not several:
        values = client_scores(runs, group)
        over = float(values.std(ddof=1)) if len(values) > 1 else None
    return np.nan if mean is None else mean, 0.0 if over is None else over


def _group_size(histories: Histories, group: str) -> str:
    history = next(run for runs in histories.values() for run in runs if len(client_scores([run], group)))
    sizes = [row["train"] for row in history.clients if row.get("group") == group]
    clients = "1 client" if len(sizes) == 1 else f"{len(sizes):,} clients"
    span = f"{min(sizes):,}" if min(sizes) == max(sizes) else f"{min(sizes):,} to {max(sizes):,}"
    return f"{clients} with {span} training samples"


def partition_figure(history: History) -> Figure:
    """Training samples per client and class, and above it each client's total."""
    table = history.partition
    counts = np.array(table.get("counts", []), dtype=np.float64)
    if counts.ndim != 2 or counts.size == 0 or counts.max() <= 0:
        raise FedloomError("The table of samples per client and class was not recorded in this run.")
    clients, classes = counts.shape
    title = f"Training samples of {clients:,} client{'s' * (clients > 1)}" + ", by class" * (classes > 1)
    names, class_names = table.get("client_names") or (), table.get("class_names") or ()
    return samples_figure(counts, title, client_names=names, class_names=class_names)


@with_style
def selection_figure(history: History) -> Figure:
    """Which clients were selected in which round, and how often."""
    rounds = [(r["round"], [int(c) for c in r["selected"]]) for r in history.records if r.get("selected")]
    if not rounds:
        raise FedloomError("No client was selected in this run.")
    clients = client_count(history)
    times = np.bincount([client for _, chosen in rounds for client in set(chosen)], minlength=clients)
    often = f"{clients:,} client{'s' * (clients > 1)}, {len(rounds):,} round{'s' * (len(rounds) > 1)}"
    if clients > MOST_LINES:
        figure = new_figure(10.0, 2.6, left=0.95)
        _draw_histogram(figure.add_subplot(), times, often)
        return figure
    names = [str(name) for name in history.partition.get("client_names") or range(clients)]
    figure = new_figure(10.0, float(np.clip(1.2 + 0.11 * clients, 2.6, 4.6)), left=name_width(names), between=0.4)
    grid = figure.add_gridspec(1, 2, width_ratios=[2.6, 1])
    raster, side = figure.add_subplot(grid[0]), figure.add_subplot(grid[1])
    when = np.zeros((clients, max(number for number, _ in rounds)))
    for number, chosen in rounds:
        when[chosen, number - 1] = 1
    extent = (0.5, when.shape[1] + 0.5, clients - 0.5, -0.5)
    raster.imshow(when, aspect="auto", cmap=blue_colormap(), interpolation="none", vmin=0, vmax=1.33, extent=extent)
    raster.grid(visible=False)
    if when.size <= MOST_CELLS:
        raster.set_xticks(np.arange(when.shape[1] + 1) + 0.5, minor=True)
        raster.set_yticks(np.arange(clients + 1) - 0.5, minor=True)
        raster.grid(which="minor", axis="both", color=PAPER, linewidth=1.2)
        raster.tick_params(which="minor", length=0)
    set_heading(raster, "Who was selected when", f"a mark: this client took part in this round; {often}")
    raster.set_xlabel("round")
    show_whole_numbers(raster.xaxis)
    _show_names(raster, names)
    if clients > MOST_BARS:
        _draw_histogram(side, times, "over the whole run")
        return figure
    side.barh(np.arange(clients), times, height=0.7, color=BLUE, alpha=0.75)
    side.set_ylim(clients - 0.5, -0.5)
    set_heading(side, "How often", "one bar per client")
    side.set_xlabel("rounds it took part in")
    side.grid(visible=False)
    show_whole_numbers(side.xaxis, 5)
    side.set_yticks([])  # the clients of the panel beside it
    return figure


def _show_names(axes: Axes, names: Sequence[str]) -> None:
    """Put clients' names at some of the places of a vertical axis, as many as fit."""
    step = -(-len(names) // MOST_NAMES)
    axes.set_yticks(range(0, len(names), step), [shorten(name) for name in names[::step]])
    axes.set_ylabel("client" if step == 1 else f"client (every {step}th is named)")


def _draw_histogram(axes: Axes, times: NDArray[np.int64], note: str) -> None:
    values, clients = np.unique(times, return_counts=True)
    axes.bar(values, clients, width=0.8, color=BLUE, alpha=0.75)
    set_heading(axes, "How often", note)
    axes.set_xlabel("rounds a client took part in")
    axes.set_ylabel("clients")
    axes.set_xlim(values.min() - 0.6, values.max() + 0.6)
    show_whole_numbers(axes.xaxis, 6)
    show_whole_numbers(axes.yaxis, 5)
