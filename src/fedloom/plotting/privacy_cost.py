"""What privacy costs: a score against epsilon, and without noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from fedloom.plotting.style import colour, name_ends, name_width, new_figure, set_heading, show_percent, with_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@with_style
def privacy_cost_figure(values: Mapping[str, Mapping[float | None, Sequence[float]]], title: str) -> Figure:
    """A line per method over epsilon, with the spread over seeds; what it has without noise is drawn at the right.

    Args:
        values: A value per seed, by method and epsilon; None is without noise.
        title: What was measured.
    """
    epsilons = [epsilon for epsilon in next(iter(values.values())) if epsilon is not None]
    places = [*range(len(epsilons)), len(epsilons) + 0.3]
    figure = new_figure(8.0, 3.6, right=name_width(values))
    axes, ends = figure.add_subplot(), []
    for index, (method, of) in enumerate(values.items()):
        means = [fmean(of[epsilon]) for epsilon in (*epsilons, None)]
        spread = [stdev(of[epsilon]) if len(of[epsilon]) > 1 else 0.0 for epsilon in (*epsilons, None)]
        hue = colour(index)
        axes.plot(places[:-1], means[:-1], color=hue, label=method)
        axes.errorbar(places, means, spread, fmt="o", markersize=4.5, color=hue, capsize=2.5, linewidth=1.0)
        ends.append((method, hue, float(places[-1]), means[-1]))
    axes.set_xticks(places, [*(f"{epsilon:g}" for epsilon in epsilons), "no noise"])
    axes.set_xlabel("epsilon of the whole run")
    axes.set_ylabel("accuracy (%)")
    seeds = len(next(iter(next(iter(values.values())).values())))
    set_heading(axes, title, f"mean over clients' own test samples; bars: standard deviation over {seeds} seeds")
    show_percent(axes.yaxis)
    name_ends(axes, ends)
    return figure
