"""The sizes of the clients in the thesis, their groups, and the same at a smaller scale.

The thesis draws three clients from each of eleven bins of flow
counts and reports on small, intermediate and big ones. Its table 5.1 gives statistics of the 33 sizes, not the sizes:
they pin a few of them, the others are interpolated. Smaller corpora keep the shape: sizes and thresholds go through the
same map n' = 80 (n / 80)^g, a straight line in log size.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.platform_kinds import THESIS_NUMBERS

Group = Literal["small", "intermediate", "big"]
GROUPS: tuple[Group, ...] = ("small", "intermediate", "big")

SIZES: tuple[int, ...] = tuple(THESIS_NUMBERS["clients"]["sizes"])
"""Data points of the 33 clients of the thesis, in rising order."""

SMALLEST, LARGEST = SIZES[0], SIZES[-1]
SMALL_TO, INTERMEDIATE_TO = (
    int(THESIS_NUMBERS["clients"]["small_to"]),
    int(THESIS_NUMBERS["clients"]["intermediate_to"]),
)
"""The largest small and the largest intermediate client: for small ones, pooled data beat a client's own data."""


def scaled_size(size: float, largest: int = LARGEST) -> int:
    """A size of the thesis at the scale at which its largest client holds ``largest`` points; 80 stays 80."""
    if largest <= SMALLEST:
        raise FedloomError(
            f"largest={largest}: the largest client must have more points than the smallest, {SMALLEST}."
        )
    g = math.log(largest / SMALLEST) / math.log(LARGEST / SMALLEST)
    return round(SMALLEST * math.pow(size / SMALLEST, g))


def thresholds(largest: int = LARGEST) -> tuple[int, int]:
    """The largest sizes of a small and of an intermediate client at this scale."""
    return scaled_size(SMALL_TO, largest), scaled_size(INTERMEDIATE_TO, largest)


def group(size: int, largest: int = LARGEST) -> Group:
    """The group of a client of this (scaled) size; a client at a threshold is in the lower group."""
    small_to, intermediate_to = thresholds(largest)
    return "small" if size <= small_to else "intermediate" if size <= intermediate_to else "big"


def spread_places(clients: int = len(SIZES)) -> list[int]:
    """The places in `SIZES` of this many clients, evenly spread from the smallest to the largest."""
    if not 1 <= clients <= len(SIZES):
        raise FedloomError(f"clients={clients}: the synthetic corpus has from 1 to {len(SIZES)} clients.")
    return [round(place) for place in np.linspace(0, len(SIZES) - 1, clients).tolist()]
