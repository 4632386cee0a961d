"""How much data the clients of the flow study hold: bins, sizes, groups, and the same at a smaller scale.

A thesis on personalised federated learning for action flows draws three clients from each of eleven bins of flow
counts and reports on small, intermediate and big ones. Its table 5.1 gives statistics of the 33 sizes, not the sizes:
they pin a few of them, the others are interpolated. Smaller corpora keep the shape: sizes and thresholds go through the
same map n' = 80 (n / 80)^g, a straight line in log size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import numpy_generator

Group = Literal["small", "intermediate", "big"]
GROUPS: tuple[Group, ...] = ("small", "intermediate", "big")

# fmt: off
SIZES = (
    80, 110, 151, 206, 283, 389, 533, 731, 1003, 1340, 1790, 2391, 3195, 4268, 5701, 7616, 10175, 13121, 16515, 21818,
    28134, 36279, 46782, 60325, 77790, 77800, 77850, 134400, 182600, 182651, 254206, 285406, 374860,
)
# fmt: on
"""Data points of the document's 33 clients, in rising order."""

SMALLEST, LARGEST = SIZES[0], SIZES[-1]
SMALL_TO, INTERMEDIATE_TO = 2_200, 31_700
"""The last size of a small and of an intermediate client: up to the first, pooled data beat a client's own."""

BINS = ((0, 63), *((2**i, 2 ** (i + 1) - 1) for i in range(6, 16)))
"""The document's eleven bins of flow counts, both ends included."""


def bin_of(flows: int) -> int:
    """The number of the bin that a client with so many flows belongs to."""
    for number, (first, last) in enumerate(BINS):
        if first <= flows <= last:
            return number
    raise FedloomError(f"{flows} flows are outside the document's bins, which go from {BINS[0][0]} to {BINS[-1][1]}.")


def drawn(flows: Sequence[int], per_bin: int, seed: int) -> list[int]:
    """The document's choice of clients: so many at random from each bin of flow counts (all, where there are fewer)."""
    bins = np.array([bin_of(count) for count in flows])
    chosen: list[int] = []
    for number in range(len(BINS)):
        members = np.flatnonzero(bins == number)
        order = numpy_generator(seed, "clients of a bin", number).permutation(len(members))
        chosen += sorted(int(member) for member in members[order[:per_bin]])
    return chosen


def scaled(size: float, largest: int = LARGEST) -> int:
    """What a size of the document becomes where its largest client holds ``largest`` points; 80 stays 80."""
    if largest <= SMALLEST:
        raise FedloomError(f"largest={largest}: the largest client needs more points than the smallest, {SMALLEST}.")
    g = math.log(largest / SMALLEST) / math.log(LARGEST / SMALLEST)
    return round(SMALLEST * math.pow(size / SMALLEST, g))


def thresholds(largest: int = LARGEST) -> tuple[int, int]:
    """The last size of a small and of an intermediate client at this scale."""
    return scaled(SMALL_TO, largest), scaled(INTERMEDIATE_TO, largest)


def group(size: int, largest: int = LARGEST) -> Group:
    """Which group a client of this (scaled) size belongs to; a client at a threshold is in the lower group."""
    small_to, intermediate_to = thresholds(largest)
    return "small" if size <= small_to else "intermediate" if size <= intermediate_to else "big"


def picked(clients: int = len(SIZES)) -> list[int]:
    """The places in `SIZES` of so many clients, evenly spread from the smallest to the largest."""
    if not 1 <= clients <= len(SIZES):
        raise FedloomError(
            f"clients={clients}: the document's corpus has {len(SIZES)} clients, ask for 1 to that many."
        )
    return [round(place) for place in np.linspace(0, len(SIZES) - 1, clients).tolist()]
