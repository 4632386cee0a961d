"""Curves of the score of several methods, side by side in panels, with each method's name at the end of its line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedloom.plotting.style import (
    LINE,
    MUTED,
    colour,
    dash,
    name_ends,
    name_width,
    new_figure,
    set_heading,
    show_percent,
    show_whole_numbers,
    widen_limits,
    with_style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UNITS = {
    "round": "round",
    "megabytes": "megabytes sent so far (up + down + between clients)",
    "uplink": "megabytes sent up so far",
    "steps": "local gradient steps so far (all clients)",
    "seconds": "seconds so far (training and evaluation)",
}
REFERENCE_PLACES = (1.0, 0.64, 0.28)
"""Where the names of references end, as shares of the width. On the right, curves have left them behind; two names that
are close do not hide each other."""
FAR_APART = 20  # when methods' totals differ by more than this factor, the axis is logarithmic


@dataclass(frozen=True)
class MethodCurve:
    """One method's line in a panel.

    ``place`` is the method's place in the comparison and decides its colour. ``band`` is drawn above and below the
    mean (paler if ``faint``), and a ``stopped`` line ends with a cross.
    """

    name: str
    place: int
    x: NDArray[np.float64]
    mean: NDArray[np.float64]
    band: NDArray[np.float64] | None = None
    faint: bool = False
    stopped: bool = False


@dataclass(frozen=True)
class CurvePanel:
    """The lines of one panel, what they show, what their bands mean, and which of ``UNITS`` they run along.

    ``unit`` is the label of the other axis, and ``share`` says whether its values are shares, shown in per cent.
    ``references`` are horizontal lines with their names: what answering without a model gives.
    """

    title: str
    note: str
    axis: str
    lines: tuple[MethodCurve, ...]
    unit: str = "accuracy (%)"
    share: bool = True
    references: tuple[tuple[str, float], ...] = ()


@with_style
def curves_figure(panels: Sequence[CurvePanel], names: Sequence[str]) -> Figure:
    """Draw panels beside each other; ``names`` are those of all methods, also of those without a line."""
    side = name_width(names)
    width = 10.0 if len(panels) > 1 else 5.3 + side
    figure = new_figure(width, max(3.6, 1.0 + LINE * len(names)), right=side, between=side + 0.65)
    for place, panel in enumerate(panels):
        _draw_axes(figure.add_subplot(1, len(panels), place + 1), panel)
    return figure


@with_style
def draw_panel(axes: Axes, panel: CurvePanel) -> None:
    """Draw one panel on axes of a figure that is there."""
    _draw_axes(axes, panel)


def _draw_axes(axes: Axes, panel: CurvePanel) -> None:
    totals = [line.x[-1] for line in panel.lines if line.x[-1] > 0]
    logarithmic = bool(totals) and max(totals) > FAR_APART * min(totals)
    for line in panel.lines:
        _draw_line(axes, line, logarithmic, panel.share)
    for place, (name, value) in enumerate(panel.references):
        axes.axhline(value, color=MUTED, linestyle=(0, (1, 2)), linewidth=1, zorder=1)
        end = REFERENCE_PLACES[place % len(REFERENCE_PLACES)]
        axes.annotate(
            name,
            (end, value),
            (-3, 2),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            color=MUTED,
            fontsize=8,
            ha="right",
        )
    set_heading(axes, panel.title, panel.note)
    axes.set_xlabel(UNITS[panel.axis])
    axes.set_ylabel(panel.unit)
    if panel.share:
        axes.set_ylim(widen_limits(axes.get_ylim()))
        show_percent(axes.yaxis)
    axes.margins(x=0.02)
    if logarithmic:
        from matplotlib.ticker import StrMethodFormatter

        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.set_xlabel(f"{UNITS[panel.axis]}, log scale")
    elif panel.axis not in ("megabytes", "uplink") or max(totals, default=0) > 10:
        show_whole_numbers(axes.xaxis, 8 if panel.axis == "round" else 5)
    name_ends(axes, [(line.name, colour(line.place), float(line.x[-1]), float(line.mean[-1])) for line in panel.lines])


def _draw_line(axes: Axes, line: MethodCurve, logarithmic: bool, share: bool) -> None:
    hue = colour(line.place)
    x = np.where(line.x > 0, line.x, np.nan) if logarithmic else line.x
    moves = line.x[-1] > line.x[0]
    start = 0 if moves else len(x) - 1  # a line that never moves along the axis is a point: its last value
    marker = "" if len(x) > 1 and moves else "o"
    axes.plot(x[start:], line.mean[start:], color=hue, linestyle=dash(line.place), marker=marker, label=line.name)
    if line.band is not None and moves:
        low, high = np.clip([line.mean - line.band, line.mean + line.band], *((0, 1) if share else (-np.inf, np.inf)))
        axes.fill_between(x, low, high, color=hue, alpha=0.10 if line.faint else 0.16, linewidth=0)
    if line.stopped:
        axes.plot(x[-1], line.mean[-1], marker="x", color=hue, markersize=7, markeredgewidth=1.8, zorder=5)
