"""A metric over the combinations of a grid: a line for one key, a map for two, the best combinations for more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedloom.plotting.style import (
    BLUE,
    INK,
    name_width,
    new_figure,
    set_heading,
    shorten,
    show_percent,
    widen_limits,
    with_style,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_DOTS = 20
FAR_APART = 20  # a key whose values differ by more than this factor has a logarithmic axis


@dataclass(frozen=True)
class GridPoint:
    """One combination of the grid: its settings, and the metric's mean and standard deviation over seeds.

    ``text`` is the value to show: ``87.3 ± 0.6 %``.
    """

    label: str
    settings: Mapping[str, Any]
    mean: float
    std: float | None
    text: str
    best: bool = False


@dataclass(frozen=True)
class GridMetric:
    """How a metric is shown: its name, whether it is a share (shown in per cent), and whether less of it is better."""

    name: str
    share: bool
    lower_is_better: bool

    @property
    def unit(self) -> str:
        """The metric as the label of an axis."""
        return self.name.rpartition("model/")[2] + (" (%)" if self.share else "")


@with_style
def grid_figure(
    grid: Mapping[str, Sequence[Any]], points: Sequence[GridPoint], metric: GridMetric, seeds: int
) -> Figure:
    """Draw the points, the best of which comes first, over those keys of the grid that have several values."""
    keys = [key for key, values in grid.items() if len(values) > 1]
    if len(keys) == 1:
        return _line(grid[keys[0]], keys[0], points, metric, seeds)
    if len(keys) == 2:
        return _map(grid, keys[0], keys[1], points, metric, seeds)
    return _dots(points, metric, seeds)


def is_number(value: Any) -> bool:
    """Whether a value is a number, which has a place on an axis."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _note(seeds: int, marks: str) -> str:
    return f"{marks}: mean of {seeds} seeds ± 1 standard deviation" if seeds > 1 else f"{marks}: one seed, no spread"


def _line(values: Sequence[Any], key: str, points: Sequence[GridPoint], metric: GridMetric, seeds: int) -> Figure:
    figure = new_figure(6.4, 3.6, left=0.75)
    axes = figure.add_subplot()
    numeric = all(is_number(value) for value in values)
    order = sorted(values) if numeric else list(values)
    by_value = {str(point.settings[key]): point for point in points}
    there = [value for value in order if str(value) in by_value]
    x = np.array(there if numeric else [order.index(value) for value in there], dtype=np.float64)
    mean, std = _means_and_stds([by_value[str(value)] for value in there])
    axes.errorbar(x, mean, std, color=BLUE, marker="o", capsize=3, linestyle="-" if numeric else "none")
    if numeric and x.min() > 0 and x.max() > FAR_APART * x.min():
        axes.set_xscale("log")
    if numeric:
        axes.set_xticks(x, [f"{value:g}" for value in there])
        axes.minorticks_off()
    else:
        axes.set_xticks(range(len(order)), [shorten(str(value)) for value in order])
        axes.set_xlim(-0.5, len(order) - 0.5)
    axes.set_xlabel(key)
    axes.set_ylabel(metric.unit)
    if metric.share:
        show_percent(axes.yaxis)
        axes.set_ylim(widen_limits(axes.get_ylim(), 0.02))
    set_heading(axes, metric.name, _note(seeds, "dot and bar"))
    return figure


def _map(
    grid: Mapping[str, Sequence[Any]],
    down: str,
    across: str,
    points: Sequence[GridPoint],
    metric: GridMetric,
    seeds: int,
) -> Figure:
    ys, xs = (sorted(v) if all(map(is_number, v)) else list(v) for v in (grid[down], grid[across]))
    cells = np.full((len(ys), len(xs)), np.nan)
    names = [shorten(str(value)) for value in ys]
    left, wide = 0.4 + name_width(names), max(4.8, 0.95 * len(xs))
    figure = new_figure(left + wide + 0.1, 1.2 + 0.55 * len(ys), left=left, bottom=0.6)
    axes = figure.add_subplot()
    for point in points:
        place = ys.index(point.settings[down]), xs.index(point.settings[across])
        cells[place] = point.mean
        text = point.text.removesuffix(" %").replace(" ± ", "\n± ")
        weight = "bold" if point.best else "normal"
        axes.text(place[1], place[0], text, ha="center", va="center", color=INK, fontsize=8.5, fontweight=weight)
    good = -cells if metric.lower_is_better else cells
    low, high = np.nanmin(good), np.nanmax(good)
    strength = 0.08 + 0.55 * (good - low) / (high - low or 1)
    colours = np.array([[(*_rgb(BLUE), 0.0 if np.isnan(s) else s) for s in line] for line in strength])
    axes.imshow(colours, aspect="auto", interpolation="none")
    axes.grid(visible=False)
    axes.set_xticks(range(len(xs)), [shorten(str(value), 12) for value in xs])
    axes.set_yticks(range(len(ys)), names)
    axes.set_xlabel(across)
    axes.set_ylabel(down)
    set_heading(axes, f"{metric.name}{' (%)' if metric.share else ''}", _note(seeds, "cell") + "; bold: best")
    return figure


def _rgb(hue: str) -> tuple[float, ...]:
    return tuple(int(hue[i : i + 2], 16) / 255 for i in (1, 3, 5))


def _dots(points: Sequence[GridPoint], metric: GridMetric, seeds: int) -> Figure:
    shown = points[:MOST_DOTS]
    names = [shorten(point.label, 48) for point in shown]
    left = 0.3 + 0.078 * max(map(len, names))
    figure = new_figure(left + 5.6, 1.2 + 0.25 * len(shown), left=left)
    axes = figure.add_subplot()
    mean, std = _means_and_stds(shown)
    axes.errorbar(mean, np.arange(len(shown)), xerr=std, color=BLUE, fmt="o", capsize=3)
    axes.set_yticks(range(len(shown)), names, color=INK)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    if metric.share:
        show_percent(axes.xaxis)
    axes.set_xlabel(metric.unit)
    which = f"the best {len(shown)} of {len(points)}" if len(points) > len(shown) else "what ran to its end"
    set_heading(axes, f"{metric.name}: {which}", _note(seeds, "dot and bar"))
    return figure


def _means_and_stds(points: Sequence[GridPoint]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    stds = [np.nan if point.std is None else point.std for point in points]
    return np.array([point.mean for point in points], dtype=np.float64), np.array(stds, dtype=np.float64)
