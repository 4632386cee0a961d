"""Groups of samples that must stay together: frames of one video, visits of one patient, windows that overlap.

A test sample that shares its raw material with a training sample measures memory. So the unit of every division is the
group: it goes to one client, and to one of the train, validation, test, global test and communal parts. Samples
without a group are units of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.data.missing_keys import check_keys

PIECE_GAPS = 10
"""Windows that overlap their next ``gap`` neighbours are cut into pieces of this many gaps: one in eleven is lost."""


@dataclass(frozen=True)
class Units:
    """What is never split, among some samples: their groups, or each sample.

    Args:
        of: The unit of each sample.
        first: The place of each unit's first sample.
        sizes: How many samples each unit has.
    """

    of: np.ndarray
    first: np.ndarray
    sizes: np.ndarray

    @staticmethod
    def among(group: np.ndarray | None, samples: int) -> Units:
        """The units of some samples; ``group`` is their group numbers, None if they have no groups."""
        if group is None:
            each = np.arange(samples)
            return Units(each, each, np.ones(samples, dtype=np.int64))
        _, first, of, sizes = np.unique(group, return_index=True, return_inverse=True, return_counts=True)
        return Units(of, first, sizes)

    def labels(self, labels: np.ndarray) -> np.ndarray:
        """One label per unit: its most frequent one (the lowest of several).

        If these do not describe most samples, the labels are returned as sequences, of which there is no single one:
        a partition by label then refuses them.
        """
        if len(self.first) == len(labels) or labels.ndim > 1:
            first: np.ndarray = labels[self.first]
            return first
        pairs, counts = np.unique(np.stack([self.of, labels]), axis=1, return_counts=True)
        order = np.lexsort((pairs[1], -counts, pairs[0]))
        unit, start = np.unique(pairs[0][order], return_index=True)
        frequent = np.empty(len(self.first), dtype=labels.dtype)
        frequent[unit] = pairs[1][order][start]
        return frequent if 2 * (frequent[self.of] == labels).sum() >= len(labels) else frequent[:, None]


def number_copies(inputs: np.ndarray) -> np.ndarray:
    """A number per sample that copies share: samples with the same inputs, byte for byte.

    Args:
        inputs: The inputs; the first axis is the sample.
    """
    found: dict[bytes, int] = {}
    numbers = [found.setdefault(input_digest([sample]), len(found)) for sample in inputs]
    return np.array(numbers, dtype=np.int64)


def input_digest(columns: Sequence[np.ndarray]) -> bytes:
    """A hash of one sample's inputs.

    Args:
        columns: What each input column has of the sample.
    """
    return blake2b(b"".join(column.tobytes() for column in columns), digest_size=16).digest()


def join_groups(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Groups that keep together what either of two groupings does.

    Args:
        one: Group numbers from 0, one per sample.
        other: The same, of the other grouping.
    """
    above = list(range(int(one.max()) + 1))

    def top(group: int) -> int:
        while above[group] != group:
            above[group] = group = above[above[group]]
        return group

    first: dict[int, int] = {}
    for group, also in zip(one.tolist(), other.tolist(), strict=True):
        above[top(group)] = top(first.setdefault(also, group))
    return np.unique([top(group) for group in one.tolist()], return_inverse=True)[1]


def number_groups(names: object, samples: int, where: str) -> np.ndarray:
    """A number per sample for the user's names of groups; a missing or uneven one is an error."""
    group = np.asarray(names)
    if group.shape != (samples,):
        raise FedloomError(f"{where}: {samples} inputs and groups of shape {group.shape}: give one group each.")
    check_keys(names, "group", "give each sample one, a new one if it belongs to none", where)
    return np.unique(group.astype(str) if group.dtype.hasobject else group, return_inverse=True)[1]


def cut_windows(blocks: np.ndarray, gap: int) -> np.ndarray:
    """Groups of overlapping windows that share nothing with each other; -1 for the windows between two groups.

    Args:
        blocks: The block of each window; windows of a block are in order, and overlap their next ``gap`` neighbours.
        gap: How many neighbours a window overlaps.
    """
    order = np.argsort(blocks, kind="stable")
    sizes = np.bincount(blocks)
    rank = np.empty(len(blocks), dtype=np.int64)
    rank[order] = np.arange(len(blocks)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    length = (PIECE_GAPS + 1) * gap
    piece = blocks.astype(np.int64) * (int(rank.max(initial=0)) // length + 1) + rank // length
    return np.where(rank % length < PIECE_GAPS * gap, piece, -1)


def refuse_split_groups(group: np.ndarray | None, marks: np.ndarray, part: str) -> None:
    """Raise an error if some samples of a group are marked and others are not."""
    if group is None:
        return
    units = Units.among(group, len(group))
    inside = np.bincount(units.of, marks)
    split = (inside > 0) & (inside < units.sizes)
    if split.any():
        row = int(units.first[split][0]) + 1
        raise FedloomError(
            f"the group of row {row} has samples inside and outside of the {part}: put each group on one side."
        )
