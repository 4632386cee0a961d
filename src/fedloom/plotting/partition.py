"""The partition of data among clients: each client's number of samples above, its samples per class below.

Up to some dozen clients are drawn as bubbles with their names, more of them as a heat map, sorted by their most
frequent class. One hue from light to dark looks alike to every reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedloom.plotting.style import (
    BLUE,
    blue_colormap,
    name_width,
    new_figure,
    set_heading,
    shorten,
    show_whole_numbers,
    with_style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BUBBLES = 40  # clients
MOST_BARS = 1000  # clients
MOST_LETTERS = 130  # of client names in one line

Counts = NDArray[np.float64]


@with_style
def samples_figure(
    counts: Counts, title: str, *, client_names: Sequence[str] = (), class_names: Sequence[str] = ()
) -> Figure:
    """Training samples per client and class, and above them each client's total.

    Args:
        counts: Samples per client and class, clients × classes. With a single class only the totals are drawn.
        title: The heading of the figure.
        client_names: The names of the clients; their numbers by default.
        class_names: The names of the classes; their numbers by default.
    """
    clients, classes = counts.shape
    crowded = clients > MOST_BUBBLES
    if crowded:
        counts = counts[np.lexsort((-counts.sum(axis=1), counts.argmax(axis=1)))]
    height = float(np.clip(0.24 * classes, 1.0, 5.0)) if classes > 1 else 0.0
    class_labels = [shorten(str(name), 16) for name in class_names or range(classes)]
    client_labels = [shorten(str(name), 12 if clients > 8 else 18) for name in client_names or range(clients)]
    upright = not crowded and sum(len(name) + 2 for name in client_labels) > MOST_LETTERS
    bottom = 0.2 + name_width(client_labels) if upright else 0.5
    figure = new_figure(10.0, height + 1.6 + bottom, left=max(0.75, 0.25 + name_width(class_labels)), bottom=bottom)
    grid = figure.add_gridspec(2, 1, height_ratios=[0.75, height], hspace=0.3 / (0.75 + height))
    top = last = figure.add_subplot(grid[0] if classes > 1 else grid[:])
    _draw_totals(top, counts.sum(axis=1))
    note = "clients sorted by size" if crowded else ""
    if classes > 1:
        last = figure.add_subplot(grid[1])
        top.tick_params(labelbottom=False, bottom=False)
        if crowded:
            last.imshow(counts.T**0.5, aspect="auto", cmap=blue_colormap(), interpolation="none", vmin=0)
            note = (
                f"colour: from none (blank) to {counts.max():,.0f} samples (full), by square root; "
                "clients sorted by their most frequent class, then by size"
            )
        else:
            _draw_bubbles(last, counts, cell=min(600 / clients, 72 * height / classes))
            note = f"a bubble's area is its number of samples; the largest is {counts.max():,.0f}"
        every = 1 + (classes - 1) // 30
        last.set_yticks(range(0, classes, every), class_labels[::every])
        last.set_ylim(classes - 0.5, -0.5)
        last.set_ylabel("class")
        last.grid(visible=not crowded, axis="both")
    if crowded:
        last.set_xlabel(f"{clients:,} clients, sorted")
    else:
        last.set_xlabel("client")
        last.set_xticks(range(clients), client_labels, rotation=90 if upright else 0)
    set_heading(top, title, note)
    for panel in (top, last):
        panel.set_xlim(-0.5, clients - 0.5)
    return figure


def _draw_totals(axes: Axes, totals: Counts) -> None:
    places = np.arange(len(totals))
    if len(totals) <= MOST_BARS:
        axes.bar(places, totals, width=1.0 if len(totals) > MOST_BUBBLES else 0.6, color=BLUE, alpha=0.75)
    else:
        axes.fill_between(places, totals, step="mid", color=BLUE, alpha=0.75, linewidth=0)
        axes.set_ylim(bottom=0)
    axes.set_ylabel("samples")
    show_whole_numbers(axes.yaxis, 3)


def _draw_bubbles(axes: Axes, counts: Counts, cell: float) -> None:
    client, label = np.nonzero(counts)
    largest = min(0.95 * cell, 30.0) ** 2
    axes.scatter(client, label, s=largest * counts[client, label] / counts.max(), color=BLUE, alpha=0.75, linewidths=0)
