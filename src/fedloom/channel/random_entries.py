"""Random entries of a row, sent with the seed of their positions instead of the positions."""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.channel.arrival_check import check_rows
from fedloom.channel.shared_randomness import random_positions, read_seeds
from fedloom.channel.sparse_rows import spread_entries
from fedloom.core.channel_step import Extras


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
