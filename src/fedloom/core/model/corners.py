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
    why = _difference(wide, narrow)
    if why:
        raise FedloomError(
            f"{names[1]} is not {names[0]} made narrower: {why}: use one kind of model in several widths, and name the "
            "widest first."
        )
    found = []
    for slot, whole in zip(narrow.slots, wide.slots, strict=True):
        columns = torch.arange(whole.start, whole.stop).view(whole.shape)
        found.append(columns[tuple(slice(0, size) for size in slot.shape)].reshape(-1))
    return torch.cat(found)


def is_corner(wide: Layout, narrow: Layout) -> bool:
    """Whether a model is another one made narrower, or as wide.

    Args:
        wide: The layout of the other model.
        narrow: The layout of the model.
    """
    return not _difference(wide, narrow)


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


def _difference(wide: Layout, narrow: Layout) -> str:
    """Why a model is not another one made narrower; empty if it is. Both must have the same tensors: where one has more
    layers, the last of the other would be averaged with one in its middle."""
    ours, theirs = ([slot.name for slot in layout.slots] for layout in (narrow, wide))
    if ours != theirs:
        missing = next((name for name in theirs if name not in ours), "")
        return f"it has no tensor {missing}" if missing else f"its tensors are {', '.join(ours)}"
    for slot, whole in zip(narrow.slots, wide.slots, strict=True):
        if len(slot.shape) != len(whole.shape) or any(a > b for a, b in zip(slot.shape, whole.shape, strict=True)):
            return f"its tensor {slot.name} has shape {slot.shape}, and the wide one {whole.shape}"
    return ""
