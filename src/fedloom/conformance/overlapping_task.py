"""A small graph problem: three clients with a piece of one graph each; nodes at a border belong to two clients."""

from __future__ import annotations

import numpy as np

from fedloom.core.task import Task
from fedloom.tasks.graphs.labelled_graph import labelled_graph
from fedloom.tasks.graphs.task import graph_task

PIECE, CLIENTS, CLASSES, FEATURES = 12, 3, 3, 6
ACROSS = ((0, 13), (14, 25), (26, 1), (5, 17), (18, 30), (31, 6))
"""Edges between the clients' pieces."""


def overlapping_task() -> Task:
    """Rings with chords, joined by a few edges; a node's features are its class plus noise."""
    nodes = np.arange(PIECE * CLIENTS)
    starts, steps = nodes - nodes % PIECE, (1, 4)
    rings = [np.stack([nodes, starts + (nodes - starts + step) % PIECE]) for step in steps]
    labels = nodes // 2 % CLASSES
    noise = np.random.default_rng(5).random((len(nodes), FEATURES))
    source = labelled_graph(
        np.concatenate([*rings, np.array(ACROSS).T], axis=1),
        np.eye(CLASSES, FEATURES)[labels] + 0.4 * noise,
        labels,
        masks={"train": nodes % 4 < 2, "valid": nodes % 4 == 2, "test": nodes % 4 == 3},
        client=nodes // PIECE,
        name="overlapping",
    )
    return graph_task(source, model_options={"hidden": 5}, seed=4)
