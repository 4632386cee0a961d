"""The pictures of a run or a comparison: how accuracy grows, and with what traffic.

Each function takes histories, a list of seeds per method under the method's name, and returns a matplotlib
``Figure``; where nothing was measured that it could show, it says so with a ``FedloomError``. The pictures of
single clients are in ``clients.py`` and are offered here too, so that this module has them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedloom.core.errors import FedloomError, unknown
from fedloom.plotting.style import (
    BLUE,
    GREEN,
    INK,
    LINE,
    MUTED,
    ORANGE,
    colour,
    dash,
    heading,
    name_ends,
    new_figure,
    percent,
    room,
    short,
    styled,
    whole_numbers,
)
from fedloom.report.clients import by_size, partition, selection, spread
from fedloom.report.measured import AXES, CLIENTS_STD, Curve, Histories, curve, points, traffic
from fedloom.runs.history import CLIENTS, GLOBAL, History

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["accuracy_by", "before_after", "by_size", "bytes", "partition", "selection", "spread"]

PANELS = {GLOBAL: "Global model on the global test set", CLIENTS: "Clients' models on their own test sets (mean)"}
UNITS = {
    "round": "round",
    "megabytes": "megabytes sent so far (up + down + between clients)",
    "steps": "local gradient steps so far (all clients)",
}
FAR_APART = 20  # when methods' totals differ by more than this factor, the axis is logarithmic
BEFORE, AFTER = "received_model/own_test/accuracy/", "trained_model/own_test/accuracy/"


@styled
def accuracy_by(axis: str, histories: Histories) -> Figure:
    """Accuracy by ``round``, ``megabytes`` or ``steps``: of the global model, and of the clients' models."""
    if axis not in AXES:
        raise unknown("axis", axis, AXES)
    panels = {metric: _curves(histories, metric, axis) for metric in PANELS}
    panels = {metric: curves for metric, curves in panels.items() if curves}
    if not panels:
        raise FedloomError("Accuracy was not measured in these runs.")
    side = room(histories)
    width = 10.0 if len(panels) > 1 else 5.3 + side
    figure = new_figure(width, max(3.6, 1.0 + LINE * len(histories)), right=side, between=side + 0.65)
    for place, (metric, curves) in enumerate(panels.items()):
        _panel(figure.add_subplot(1, len(panels), place + 1), axis, metric, curves, histories)
    return figure


def _curves(histories: Histories, metric: str, axis: str) -> dict[str, Curve]:
    found = {name: curve(runs, metric, axis) for name, runs in histories.items()}
    return {name: line for name, line in found.items() if line is not None}


def _panel(axes: Axes, axis: str, metric: str, curves: dict[str, Curve], histories: Histories) -> None:
    totals = [line.x[-1] for line in curves.values() if line.x[-1] > 0]
    logarithmic = bool(totals) and max(totals) > FAR_APART * min(totals)
    alone = sum(len(runs) for runs in histories.values()) == 1
    ends = []
    for place, (name, runs) in enumerate(histories.items()):
        line = curves.get(name)
        if line is None:
            continue
        hue = colour(place)
        x = np.where(line.x > 0, line.x, np.nan) if logarithmic else line.x
        moved = line.x[-1] > line.x[0]
        start = 0 if moved else len(x) - 1  # what never moves along the axis is a point: its last value
        marker = "" if len(x) > 1 and moved else "o"
        axes.plot(x[start:], line.mean[start:], color=hue, linestyle=dash(place), marker=marker, label=name)
        over_clients = curve(runs, CLIENTS_STD, axis) if alone and metric == CLIENTS else None
        band = over_clients.mean if over_clients and len(over_clients.mean) == len(x) else line.std
        if band is not None and moved:
            low, high = np.clip([line.mean - band, line.mean + band], 0, 1)
            axes.fill_between(x, low, high, color=hue, alpha=0.10 if over_clients else 0.16, linewidth=0)
        if any(run.stopped for run in runs):
            axes.plot(x[-1], line.mean[-1], marker="x", color=hue, markersize=7, markeredgewidth=1.8, zorder=5)
        ends.append((name, hue, float(line.x[-1]), float(line.mean[-1])))
    heading(axes, PANELS[metric], _band_note(metric, histories, alone))
    axes.set_xlabel(UNITS[axis])
    axes.set_ylabel("accuracy (%)")
    percent(axes.yaxis)
    axes.margins(x=0.02)
    if logarithmic:
        from matplotlib.ticker import StrMethodFormatter

        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.set_xlabel(f"{UNITS[axis]}, log scale")
    elif axis != "megabytes" or max(totals, default=0) > 10:
        whole_numbers(axes.xaxis, 8 if axis == "round" else 5)
    name_ends(axes, ends)


def _band_note(metric: str, histories: Histories, alone: bool) -> str:
    seeds = {len(runs) for runs in histories.values()}
    cross = "; ×: stopped" if any(run.stopped for runs in histories.values() for run in runs) else ""
    if max(seeds) > 1:
        count = f"{max(seeds)} seeds" if len(seeds) == 1 else f"up to {max(seeds)} seeds"
        return f"mean of {count}; band: ± 1 std over seeds{cross}"
    if alone and metric == CLIENTS:
        return f"one seed; band: ± 1 std over clients{cross}"
    return f"one seed{'' if alone else ' per method'}, so no spread over seeds{cross}"


@styled
def before_after(history: History, limits: tuple[float, float] | None = None, name: str | None = None) -> Figure:
    """The selected clients' accuracy on their own tests, before and after each round's local training.

    ``limits`` of the accuracy axis make several methods' figures comparable; ``name`` stands for the run's own.
    """
    lines = [
        (curve([history], BEFORE + "mean"), curve([history], BEFORE + "std"), "before", MUTED),
        (curve([history], AFTER + "mean"), curve([history], AFTER + "std"), "after", BLUE),
    ]
    if not any(mean for mean, *_ in lines):
        raise FedloomError("Accuracy before and after local training was not measured in this run.")
    figure = new_figure(5.0, 2.9, right=room(["before"]))
    axes = figure.add_subplot()
    ends = []
    for mean, std, when, hue in lines:
        if mean is None:
            continue
        axes.plot(mean.x, mean.mean, color=hue, marker="" if len(mean.x) > 1 else "o", label=when)
        if std is not None and len(std.x) == len(mean.x):
            low, high = np.clip([mean.mean - std.mean, mean.mean + std.mean], 0, 1)
            axes.fill_between(mean.x, low, high, color=hue, alpha=0.10, linewidth=0)
        ends.append((when, hue, float(mean.x[-1]), float(mean.mean[-1])))
    heading(axes, short(name or history.label, 40), "mean of the selected clients; band: ± 1 std over them")
    axes.set_xlabel("round")
    axes.set_ylabel("accuracy (%)")
    axes.set_ylim(limits)
    axes.margins(x=0.02)
    if all(len(mean.x) == 1 for mean, *_ in lines if mean):
        axes.set_xlim(ends[0][2] - 0.5, ends[0][2] + 0.5)
    percent(axes.yaxis)
    whole_numbers(axes.xaxis)
    name_ends(axes, ends)
    return figure


def common_limits(runs: Sequence[History]) -> tuple[float, float] | None:
    """The accuracies that ``before_after`` shows for any of these runs, so that their figures share an axis."""
    low, high = [], []
    for run in runs:
        for metric in (BEFORE, AFTER):
            std = points(run, metric + "std")
            for number, mean in points(run, metric + "mean").items():
                low.append(mean - std.get(number, 0.0))
                high.append(mean + std.get(number, 0.0))
    return (max(0.0, min(low) - 0.02), min(1.02, max(high) + 0.02)) if low else None


@styled
def bytes(histories: Histories) -> Figure:
    """Megabytes over the whole run, mean over seeds: to the server (up), from it (down), and between clients.

    The third bar is there only if some method's clients send to each other.
    """
    sent = [traffic(runs) for runs in histories.values()]
    ways = {"up": BLUE, "down": ORANGE}
    if any(one["megabytes_between"] for one in sent):
        ways["between"] = GREEN
    figure = new_figure(10.0, 0.8 + 0.23 * len(ways) * len(histories), left=room(histories), top=0.1)
    axes = figure.add_subplot()
    most, step = 0.0, 0.76 / len(ways)
    for place, one in enumerate(sent):
        for number, (what, hue) in enumerate(ways.items()):
            megabytes = one[f"megabytes_{what}"]
            height = place + step * (number - (len(ways) - 1) / 2)
            axes.barh(height, megabytes, height=0.9 * step, color=hue, label=what)
            axes.annotate(
                f"{what} {megabytes:,.4g} MB",
                (megabytes, height),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
            )
            most = max(most, megabytes)
    axes.set_xlim(0, 1.14 * most or 1)
    axes.set_yticks(range(len(histories)), [short(name) for name in histories], color=INK)
    axes.set_ylim(len(histories) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.set_xlabel("megabytes over the whole run, all clients, mean over seeds (1 MB = 10⁶ bytes)")
    return figure
