"""The split of a graph as a figure: how many nodes each client holds alone and shares, and their classes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedloom.plotting.style import BLUE, ORANGE, blue_colormap, name_width, new_figure, set_heading, with_style
from fedloom.tasks.graphs.labelled_graph import LabelledGraph
from fedloom.tasks.graphs.split import GraphSplit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 130


@with_style
def plot_split(source: LabelledGraph, split: GraphSplit, path: str | Path | None = None) -> Figure:
    """Draw the nodes of each client, those it holds alone below its anchors, and their classes as shares.

    Args:
        source: The whole graph.
        split: Its division among clients.
        path: A file to write, whose ending says the format (PNG if it has none).
    """
    nodes, anchors = np.array(split.sizes.nodes), np.array(split.sizes.anchors)
    names = list(split.names) or [str(client) for client in range(len(nodes))]
    classes = list(source.class_names) or [str(label) for label in range(source.classes)]
    named = source.classes <= 20
    figure = new_figure(9.0, 3.8, left=0.75, between=0.75 + name_width(classes) * named)
    left, right = figure.subplots(1, 2)
    left.bar(names, nodes - anchors, color=BLUE, label="held alone")
    left.bar(names, anchors, bottom=nodes - anchors, color=ORANGE, label="anchors (shared)")
    left.set(xlabel="client", ylabel="nodes")
    left.legend(frameon=False)
    title = f"{source.name}: {len(names)} clients, {len(source):,} nodes"
    set_heading(left, title, "an anchor is a node of several clients, and each counts it")
    labels = [source.labels[split.graphs.original(client).nodes] for client in range(len(names))]
    counts = np.array([[int((some == label).sum()) for some in labels] for label in range(source.classes)])
    shares = counts / np.maximum(counts.sum(0), 1)
    image = right.imshow(shares, aspect="auto", origin="lower", cmap=blue_colormap(), vmin=0)
    right.grid(visible=False)
    right.set_xticks(range(len(names)), names)
    if named:
        right.set_yticks(range(source.classes), classes)
    right.set(xlabel="client", ylabel="class")
    set_heading(right, "Classes of each client's nodes", "colour: share of the client's nodes")
    figure.colorbar(image, ax=right)
    if path is not None:
        figure.savefig(path, dpi=DPI)
    return figure
