"""A sender for tests of channel steps: clients that keep what they are given, without a cohort."""

from __future__ import annotations

import math
from types import SimpleNamespace

import torch
from hypothesis import strategies as st
from torch import nn

from fedloom.core.layout import Layout
from fedloom.core.seeds import generator


class MemorySender:
    """Clients that encode, round after round."""

    def __init__(self, ids=range(1000), steps=1, received=None):
        self.ids, self.kept, self.round, self.received = list(ids), {}, 1, received
        self.steps = torch.full((len(self.ids),), steps)

    def kept_rows(self, name, default):
        return self.kept.get(name, default)

    def keep(self, name, rows):
        self.kept[name] = rows

    def generator(self, place):
        return generator(0, "step", self.round, self.ids[place])


def send(step, rows, sender=None):
    """Rows after encoding and decoding."""
    return step.decode(*step.encode(rows, sender or MemorySender(range(len(rows)))), rows.shape[1])


FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 1e-39, 1.1754944e-38]),
    st.floats(-(2.0**80), 2.0**80, width=32, allow_nan=False),
)
"""Numbers of an update: zeros, equal magnitudes, denormals, and anything that is finite and not huge."""


def updates(most=40):
    """Updates of one to three clients."""
    shapes = st.tuples(st.integers(1, 3), st.integers(1, most))
    numbers = shapes.flatmap(
        lambda shape: st.lists(FLOATS, min_size=math.prod(shape), max_size=math.prod(shape)).map(
            lambda values: torch.tensor(values, dtype=torch.float32).view(shape)
        )
    )
    return numbers


def small_model():
    """A task's layout with matrices, a convolution and vectors: 1,026 numbers, a body and a head."""
    model = nn.Sequential(nn.Conv2d(2, 8, 3), nn.Flatten(), nn.Linear(32, 24), nn.Linear(24, 3))
    task = SimpleNamespace(layout=Layout.of(model))
    task.by_architecture = (task,)
    return task
