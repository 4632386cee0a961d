"""Selective SGD: a client shares a random choice of those entries of its update that exceed a threshold.

At most ``k = fraction * d`` entries are sent, drawn uniformly among those with ``|u_i| >= threshold``; if fewer exceed
it, zeros at other positions fill up the message. What is sent is exact, so no entry is off by more than its own
magnitude, and what is not sent is lost.

Shokri and Shmatikov, Privacy-Preserving Deep Learning, CCS 2015, https://doi.org/10.1145/2810103.2813687, where the
choice is one of two: this one, or the largest entries, which is ``topk`` with ``error_feedback = false``. The paper's
noise is not here: its budget grows with every entry that is shared.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.channel.arrival_check import check_rows
from fedloom.channel.shared_randomness import share_of
from fedloom.channel.sparse_rows import read_positions, spread_entries
from fedloom.core.channel_step import ChannelStep, Extras, Sender
from fedloom.core.settings import NonNegative, PositiveShare


@dataclass(frozen=True)
class SelectiveSGD(ChannelStep):
    """Send random entries of an update among those above a threshold, and their positions.

    Args:
        fraction: The largest share of the entries that is sent.
        threshold: The smallest magnitude that is sent.
    """

    fraction: PositiveShare = 0.1
    threshold: NonNegative = 1e-4

    def width(self, width: int) -> int:
        """How many entries are sent."""
        return share_of(self.fraction, width)

    def encode(self, rows: Tensor, sender: Sender) -> tuple[Tensor, Extras]:
        """The chosen entries in the order of their positions."""
        above, width = rows.abs() >= self.threshold, rows.shape[1]
        draws = [
            torch.rand(width, generator=sender.generator(place), dtype=torch.float64) for place in range(len(rows))
        ]
        places = (torch.stack(draws) + above).topk(self.width(width), dim=1).indices.sort(dim=1).values
        return (rows * above).gather(1, places), {"positions": places.int()}

    def decode(self, rows: Tensor, extras: Extras, width: int) -> Tensor:
        """Rows with zeros where nothing was sent."""
        count = self.width(width)
        check_rows(rows, torch.float32, count)
        if bool(((rows != 0) & (rows.abs() < self.threshold)).any()):
            raise ValueError(f"an entry is below the threshold of {self.threshold:g}")
        return spread_entries(rows, read_positions(extras, len(rows), count, width), width)
