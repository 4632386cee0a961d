"""Statistics on a channel: logits and features that a method declares as ``coded`` are sent as the channel's steps say.

Only steps without memory act on them (``ChannelStep.codes_statistics``): error feedback makes up for what a change of a
model lost, and a statistic is not a change. A tensor travels as rows; its shape travels in a name
(``logits@shape/200x10``), which costs no bytes and which a server that knows the form of its answers has checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from fedloom.core.channel_step import ChannelStep, Sender
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declaration, Statistic

SHAPE = "@shape/"


def is_coded(kind: Declaration, tensor: Tensor) -> bool:
    """Whether the steps of a channel act on a reply's tensor that is not an update.

    Args:
        kind: What the method declares it to be.
    """
    return isinstance(kind, Statistic) and kind.coded and tensor.is_floating_point() and tensor.dim() > 1


def coding_steps(steps: Sequence[ChannelStep]) -> list[tuple[int, ChannelStep]]:
    """The steps of a channel that act on statistics, with their numbers."""
    return [(number, step) for number, step in enumerate(steps) if step.codes_statistics]


def encode_statistic(name: str, tensor: Tensor, steps: Sequence[ChannelStep], cohort: Cohort) -> dict[str, Tensor]:
    """A statistic as it is sent: its rows, what steps send beside them, and its shape.

    Args:
        name: The name of the reply's tensor.
        tensor: The tensor, with one entry per client.
        cohort: The clients.
    """
    rows, sent = tensor.flatten(1), dict[str, Tensor]()
    for number, step in coding_steps(steps):
        rows, extras = step.encode(rows, Sender(cohort, f"channel/{number}/{name}"))
        sent |= {f"{name}@{number}/{extra}": one for extra, one in extras.items()}
    shape = "x".join(map(str, tensor.shape[1:]))
    return {name: rows, **sent, f"{name}{SHAPE}{shape}": torch.zeros(len(tensor), 0)}


def decode_statistic(name: str, tensors: Mapping[str, Tensor], steps: Sequence[ChannelStep]) -> Tensor:
    """A statistic as the method's server gets it.

    Args:
        name: The name of the reply's tensor.
        tensors: All tensors of the replies, as they were sent.
    """
    shape = _shape(name, tensors)
    acting, rows = coding_steps(steps), tensors[name]
    widths = [prod(shape)]
    for _, step in acting:
        widths.append(step.width(widths[-1]))
    for (number, step), width in reversed(list(zip(acting, widths, strict=False))):
        prefix = f"{name}@{number}/"
        extras = {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}
        rows = step.decode(rows, extras, width)
    return rows.view(len(rows), *shape)


def coded_names(tensors: Mapping[str, Tensor]) -> list[str]:
    """The names of the statistics that a channel's steps have acted on.

    Args:
        tensors: All tensors of the replies, as they were sent.
    """
    return [name.partition(SHAPE)[0] for name in tensors if SHAPE in name]


def _shape(name: str, tensors: Mapping[str, Tensor]) -> tuple[int, ...]:
    said = [key.removeprefix(name + SHAPE) for key in tensors if key.startswith(name + SHAPE)]
    if len(said) != 1 or not all(part.isdecimal() for part in said[0].split("x")):
        raise ValueError(f"the shape of {name} is missing")
    return tuple(int(part) for part in said[0].split("x"))
