"""A division of a graph as a picture: what each client holds alone, what it shares, and the labels it has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.federation_figure import INK
from fedloom.tasks.graphs.labelled_graph import LabelledGraph
from fedloom.tasks.graphs.split import GraphSplit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARED = "#e69f00"  # beside the ink, apart for every kind of colour vision


def plot_split(source: LabelledGraph, divided: GraphSplit, path: str | Path | None = None) -> Figure:
    """Nodes per client, those held alone below and anchors above; and the classes of its nodes, as shares."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    held, graphs = divided.statistics, divided.graphs
    nodes, anchors = np.array(held.nodes), np.array(held.anchors)
    names = list(divided.names) or [str(client) for client in range(len(nodes))]
    figure = Figure(figsize=(9, 3.8), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    left.bar(names, nodes - anchors, color=INK, label="held alone")
    left.bar(names, anchors, bottom=nodes - anchors, color=SHARED, label="anchors (shared)")
    left.set(xlabel="client", ylabel="nodes")
    left.legend(frameon=False)
    left.spines[["top", "right"]].set_visible(False)
    left.set_title(f"{source.name}: {len(names)} clients, {len(source):,} nodes", loc="left", fontsize=10)
    labels = [source.labels[graphs.original(client).nodes] for client in range(len(names))]
    counts = np.array([[int((some == label).sum()) for some in labels] for label in range(source.classes)])
    blues = LinearSegmentedColormap.from_list("share", ["#f4f8fc", "#5f93c9", INK])
    image = right.imshow(counts / np.maximum(counts.sum(0), 1), aspect="auto", origin="lower", cmap=blues, vmin=0)
    right.set_xticks(range(len(names)), names)
    if source.classes <= 20:
        right.set_yticks(range(source.classes), list(source.class_names) or [str(c) for c in range(source.classes)])
    right.set(xlabel="client", ylabel="class")
    figure.colorbar(image, ax=right, label="share of a client's nodes")
    if path is not None:
        figure.savefig(path)
    return figure
