"""Rows that are sent as some of their entries, with the positions of these or with the seed that draws them."""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.channel.arrival_check import check_rows, extra_rows
from fedloom.channel.shared_randomness import random_positions, read_seeds
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


def take_random_entries(rows: Tensor, seeds: Tensor, count: int) -> Tensor:
    """Random entries of each client's row, in the order of their positions.

    Args:
        rows: A row per client.
        seeds: A seed per client.
        count: How many entries of each row.
    """
    return rows.gather(1, random_positions(seeds, rows.shape[1], count))


def spread_random_entries(values: Tensor, extras: Extras, width: int, count: int) -> Tensor:
    """Rows with zeros where nothing was sent; a ``ValueError`` for what ``take_random_entries`` cannot have made.

    Args:
        values: The entries that were sent.
        extras: The seeds.
        width: How wide the rows are.
        count: How many entries of each row are sent.
    """
    check_rows(values, torch.float32, count)
    return spread_entries(values, random_positions(read_seeds(extras, len(values)), width, count), width)
