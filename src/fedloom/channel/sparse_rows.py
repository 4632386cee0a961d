"""Rows that are sent as some of their entries and the positions of these."""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.channel.arrival_check import extra_rows
from fedloom.core.channel_step import Extras


def spread_entries(values: Tensor, positions: Tensor, width: int) -> Tensor:
    """Rows with zeros where nothing was sent.

    Args:
        values: The entries that were sent.
        positions: Where they lie.
        width: How wide the rows are.
    """
    return values.new_zeros(len(values), width).scatter(1, positions, values)


def read_positions(extras: Extras, clients: int, count: int, width: int) -> Tensor:
    """The positions that clients sent; a ``ValueError`` unless they ascend within a row.

    Args:
        extras: What was sent beside the entries.
        clients: How many clients sent them.
        count: How many entries each of them sent.
        width: How wide the rows are.
    """
    positions = extra_rows(extras, "positions", torch.int32, count, clients).long()
    if bool((positions < 0).any()) or bool((positions >= width).any()) or bool((positions.diff(dim=1) <= 0).any()):
        raise ValueError(f"positions must ascend from 0 to at most {width - 1:,}")
    return positions
