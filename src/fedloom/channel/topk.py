"""Top-k sparsification: a client sends the largest entries of its update and their positions.

With error feedback a client adds what it could not send, ``e <- (u + e) - topk(u + e)``, to its next update: nothing is
lost for ever, only late. Without it the error is at most ``||u||^2 (1 - k/d)``.

Stich, Cordonnier and Jaggi, Sparsified SGD with Memory, NeurIPS 2018, https://arxiv.org/abs/1809.07599.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedloom.channel.arrival_check import check_rows
from fedloom.channel.error_feedback import ErrorFeedback
from fedloom.channel.shared_randomness import share_of
from fedloom.channel.sparse_rows import read_positions, spread_entries
from fedloom.core.channel_step import Extras, Sender
from fedloom.core.settings import PositiveShare


@dataclass(frozen=True)
class TopK(ErrorFeedback):
    """Send the largest entries of an update by magnitude, and their positions.

    Args:
        fraction: The share of the entries that is sent; at least one entry is.
        error_feedback: Whether clients add what they did not send to their next update.
    """

    fraction: PositiveShare = 0.1
    error_feedback: bool = True

    def width(self, width: int) -> int:
        """How many entries are sent."""
        return share_of(self.fraction, width)

    def compress(self, rows: Tensor, sender: Sender) -> tuple[Tensor, Extras]:
        """The largest entries in the order of their positions."""
        places = largest_positions(rows, self.width(rows.shape[1]))
        return rows.gather(1, places), {"positions": places.int()}

    def decode(self, rows: Tensor, extras: Extras, width: int) -> Tensor:
        """Rows with zeros where nothing was sent."""
        count = self.width(width)
        check_rows(rows, torch.float32, count)
        return spread_entries(rows, read_positions(extras, len(rows), count, width), width)


def largest_positions(rows: Tensor, count: int) -> Tensor:
    """The positions of the largest magnitudes of each row, ascending; of equal ones the first.

    A selection of the smallest magnitude that is sent, several times as fast as sorting those that are.

    Args:
        rows: A row per client.
        count: How many positions of each row.
    """
    sizes = rows.abs().nan_to_num(nan=torch.inf).numpy()
    first = rows.shape[1] - count
    found = np.empty((len(rows), count), dtype=np.int64)
    for place, (size, least) in enumerate(zip(sizes, np.partition(sizes, first, axis=1)[:, first], strict=True)):
        large = np.flatnonzero(size >= least)
        if len(large) > count:
            equal = np.flatnonzero(size[large] == least)
            large = np.delete(large, equal[count - len(large) :])
        found[place] = large
    return torch.from_numpy(found)
