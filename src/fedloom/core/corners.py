"""A narrow network as a part of a wide one: each of its tensors is the leading corner of the wide one's.

Entry ``[i, j, ...]`` of a narrow tensor is entry ``[i, j, ...]`` of the wide tensor of the same name: the first units
of every layer, and what lies between them. So a narrow row is a selection of the columns of the wide row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.layout import Layout


def corner_columns(wide: Layout, narrow: Layout, names: Sequence[str] = ("the wide model", "the narrow one")) -> Tensor:
    """The columns of the wide row that make up the narrow row, in its order.

    Args:
        wide: The layout of the wide model.
        narrow: The layout of the narrow model.
        names: What an error calls them.
    """
    places = {slot.name: slot for slot in wide.slots}
    found = []
    for slot in narrow.slots:
        whole = places.get(slot.name)
        if whole is None or not _fits(slot.shape, whole.shape):
            there = "has none of that name" if whole is None else f"has shape {whole.shape}"
            raise FedloomError(
                f"{names[1]} is not {names[0]} made narrower: its tensor {slot.name} has shape {slot.shape}, and the "
                f"wide model {there}: use one kind of model in several widths, and name the widest first."
            )
        columns = torch.arange(whole.start, whole.stop).view(whole.shape)
        found.append(columns[tuple(slice(0, size) for size in slot.shape)].reshape(-1))
    return torch.cat(found)


def is_corner(wide: Layout, narrow: Layout) -> bool:
    """Whether a model is another one made narrower, or as wide.

    Args:
        wide: The layout of the other model.
        narrow: The layout of the model.
    """
    shapes = {slot.name: slot.shape for slot in wide.slots}
    return all(slot.name in shapes and _fits(slot.shape, shapes[slot.name]) for slot in narrow.slots)


@lru_cache(maxsize=64)
def corner_masks(wide: Layout, corners: tuple[Layout, ...]) -> dict[str, Tensor]:
    """For each tensor of the wide model, 1 where a corner has an entry and 0 elsewhere: corners × the tensor's shape.

    Args:
        wide: The layout of the wide model.
        corners: The layouts of narrow models.
    """
    rows = torch.zeros(len(corners), wide.width)
    for row, narrow in zip(rows, corners, strict=True):
        row[corner_columns(wide, narrow)] = 1
    return wide.stacks(rows)


def _fits(narrow: tuple[int, ...], wide: tuple[int, ...]) -> bool:
    return len(narrow) == len(wide) and all(a <= b for a, b in zip(narrow, wide, strict=True))
