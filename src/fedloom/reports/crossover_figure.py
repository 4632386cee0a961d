"""The figure behind a hybrid method's threshold: from which size on a client is better off with local training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedloom.methods.size_threshold import curve_of
from fedloom.plotting.style import (
    BLUE,
    INK,
    ORANGE,
    name_ends,
    name_width,
    new_figure,
    set_heading,
    show_percent,
    widen_limits,
    with_style,
)
from fedloom.runs.results.history import History

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@with_style
def crossover_figure(history: History) -> Figure:
    """Validation accuracy of local training and of the shared model over client size, and the threshold."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    curve = curve_of(history.server_state())
    names = {"shared model": (BLUE, curve.shared.numpy()), "local training": (ORANGE, curve.local.numpy())}
    figure = new_figure(10.0, 3.4, right=name_width(names))
    axes, sizes = figure.add_subplot(), curve.sizes.numpy()
    for name, (hue, values) in names.items():
        axes.plot(sizes, values, marker="o", markersize=4.5, linewidth=0.8, color=hue, label=name)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.axvline(max(curve.threshold, float(sizes[0]) / 1.1), color=INK, linewidth=1.2, linestyle=(0, (4, 2)))
    set_heading(
        axes,
        f"{history.label}: clients with more than {curve.threshold:,.0f} points keep a body of their own",
        f"dots: clients, mean of the last probing rounds (seed {history.config.get('seed')}); dashed: the threshold",
    )
    axes.set_xlabel("points of a client (train, validation and test)")
    axes.set_ylabel("validation accuracy (%)")
    axes.set_ylim(widen_limits(axes.get_ylim()))
    show_percent(axes.yaxis)
    name_ends(axes, [(name, hue, float(sizes[-1]), float(values[-1])) for name, (hue, values) in names.items()])
    return figure
