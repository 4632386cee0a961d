"""What a decoder checks of a tensor that arrived, before it uses it."""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.core.channel_step import Extras


def check_rows(rows: Tensor, kind: torch.dtype, width: int) -> None:
    """Raise a ``ValueError`` unless rows have the type and the width that their step encodes.

    Args:
        rows: The rows that arrived.
        kind: The type of their numbers.
        width: How many numbers each has.
    """
    _check("the encoded row", rows, kind, (len(rows), width))


def extra_rows(extras: Extras, name: str, kind: torch.dtype, width: int, clients: int) -> Tensor:
    """What a step sent beside its rows under a name; a ``ValueError`` unless it has the form that the step encodes.

    Args:
        extras: What arrived beside the rows.
        kind: The type of its numbers.
        width: How many of them each client sends.
        clients: How many clients sent it.
    """
    if name not in extras:
        raise ValueError(f"{name} is missing")
    _check(name, extras[name], kind, (clients, width))
    return extras[name]


def _check(name: str, tensor: Tensor, kind: torch.dtype, shape: tuple[int, int]) -> None:
    if tensor.dtype != kind or tuple(tensor.shape) != shape:
        found = f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
        raise ValueError(f"{name} is {found} instead of {str(kind).removeprefix('torch.')} of shape {shape}")
