"""A narrow network as a part of a wide one: each of its tensors is the leading corner of the wide one's.

Entry ``[i, j, ...]`` of a narrow tensor is entry ``[i, j, ...]`` of the wide tensor of the same name: the first units
of every layer, and what lies between them. So a narrow row is a selection of the columns of the wide row.
"""

from __future__ import annotations

from collections.abc import Sequence

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
        fits = whole is not None and len(whole.shape) == len(slot.shape)
        if whole is None or not fits or any(a > b for a, b in zip(slot.shape, whole.shape, strict=True)):
            there = "has none of that name" if whole is None else f"has shape {whole.shape}"
            raise FedloomError(
                f"{names[1]} is not {names[0]} made narrower: its tensor {slot.name} has shape {slot.shape}, and the "
                f"wide model {there}: use one kind of model in several widths, and name the widest first."
            )
        columns = torch.arange(whole.start, whole.stop).view(whole.shape)
        found.append(columns[tuple(slice(0, size) for size in slot.shape)].reshape(-1))
    return torch.cat(found)
