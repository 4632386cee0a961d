"""The figures of a run or a comparison: the score, before and after local training, and traffic.

Each function takes histories (a list of seeds per method, by the method's name) and returns a matplotlib ``Figure``,
or raises a ``FedloomError`` if nothing was measured that it could show. Figures of single clients are in
``client_figures.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.plotting.curves import curves_figure
from fedloom.plotting.style import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    name_ends,
    name_width,
    new_figure,
    set_heading,
    shorten,
    show_percent,
    show_whole_numbers,
    with_style,
)
from fedloom.runs.results.history import History
from fedloom.runs.results.summaries import Histories, curve, score_panels, traffic, values_by_round

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEFORE, AFTER = "received_model/own_test/{}/", "trained_model/own_test/{}/"


def score_figure(axis: str, histories: Histories) -> Figure:
    """The score by ``round``, ``megabytes`` or ``steps``: of the global model, and of the clients' models."""
    return curves_figure(score_panels(axis, histories), list(histories))


@with_style
def before_after_figure(history: History, limits: tuple[float, float] | None = None, name: str | None = None) -> Figure:
    """The selected clients' score on their own tests, before and after each round's local training.

    ``limits`` of the score's axis make several methods' figures comparable; ``name`` stands for the run's own.
    """
    score = history.score
    lines = []
    for metric, when, hue in ((BEFORE.format(score.name), "before", MUTED), (AFTER.format(score.name), "after", BLUE)):
        lines.append((curve([history], metric + "mean"), curve([history], metric + "std"), when, hue))
    if not any(mean for mean, *_ in lines):
        raise FedloomError(f"{score.heading} before and after local training was not measured in this run.")
    figure = new_figure(5.0, 2.9, right=name_width(["before"]))
    axes = figure.add_subplot()
    ends = []
    for mean, std, when, hue in lines:
        if mean is None:
            continue
        axes.plot(mean.x, mean.mean, color=hue, marker="" if len(mean.x) > 1 else "o", label=when)
        if std is not None and len(std.x) == len(mean.x):
            low, high = mean.mean - std.mean, mean.mean + std.mean
            if score.is_share:
                low, high = np.clip([low, high], 0, 1)
            axes.fill_between(mean.x, low, high, color=hue, alpha=0.10, linewidth=0)
        ends.append((when, hue, float(mean.x[-1]), float(mean.mean[-1])))
    set_heading(axes, shorten(name or history.label, 40), "mean of the selected clients; band: ± 1 std over them")
    axes.set_xlabel("round")
    axes.set_ylabel(score.axis)
    axes.set_ylim(limits)
    axes.margins(x=0.02)
    if all(len(mean.x) == 1 for mean, *_ in lines if mean):
        axes.set_xlim(ends[0][2] - 0.5, ends[0][2] + 0.5)
    if score.is_share:
        show_percent(axes.yaxis)
    show_whole_numbers(axes.xaxis)
    name_ends(axes, ends)
    return figure


def common_limits(runs: Sequence[History]) -> tuple[float, float] | None:
    """The scores that ``before_after`` shows for any of these runs, so that their figures share an axis."""
    low, high = [], []
    for run in runs:
        for metric in (BEFORE.format(run.score.name), AFTER.format(run.score.name)):
            std = values_by_round(run, metric + "std")
            for number, mean in values_by_round(run, metric + "mean").items():
                low.append(mean - std.get(number, 0.0))
                high.append(mean + std.get(number, 0.0))
    if not low:
        return None
    if all(run.score.is_share for run in runs):
        return max(0.0, min(low) - 0.02), min(1.02, max(high) + 0.02)
    margin = 0.04 * (max(high) - min(low)) or 1.0
    return min(low) - margin, max(high) + margin


@with_style
def traffic_figure(histories: Histories) -> Figure:
    """Megabytes over the whole run, mean over seeds: to the server (up), from it (down), and between clients.

    The third bar is there only if some method's clients send to each other.
    """
    sent = [traffic(runs) for runs in histories.values()]
    ways = {"up": BLUE, "down": ORANGE}
    if any(one["megabytes_between"] for one in sent):
        ways["between"] = GREEN
    figure = new_figure(10.0, 0.8 + 0.23 * len(ways) * len(histories), left=name_width(histories), top=0.1)
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
    axes.set_yticks(range(len(histories)), [shorten(name) for name in histories], color=INK)
    axes.set_ylim(len(histories) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.set_xlabel("megabytes over the whole run, all clients, mean over seeds (1 MB = 10⁶ bytes)")
    return figure
