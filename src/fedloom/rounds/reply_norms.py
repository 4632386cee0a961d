"""How large replies are: a norm per client for every tensor, so that clients can be compared with each other.

Weights are measured by their change: their distance from what the client received. Everything else (statistics, single
numbers, tensors that no method declares and that change nothing) is measured as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fedloom.channel.channel import change_of
from fedloom.core.algorithm import Algorithm
from fedloom.core.message import Message


def change_norms(algorithm: Algorithm, message: Message, replies: Mapping[str, Tensor], name: str) -> Tensor:
    """The norm of one tensor of each reply: of its change if it is weights, else of itself.

    Args:
        algorithm: The method.
        message: The message that the replies answer, as their clients got it.
        replies: The replies' tensors, after all decoders, with a row per client.
        name: The name of the tensor.

    Returns:
        Euclidean norms in double precision; infinity where they are not a number.
    """
    rows = change_of(algorithm, name, message, replies)
    found: Tensor = torch.linalg.vector_norm(rows.reshape(len(rows), -1).double(), dim=1)
    return found.nan_to_num(nan=torch.inf, posinf=torch.inf)


def weighted_median_of_others(values: Tensor, weights: Tensor) -> Tensor:
    """For each value, the weighted median of the others that are positive and finite; 0 where there is none.

    Args:
        weights: The weight of each; a value counts as often as its weight says.
    """
    counts = (values > 0) & values.isfinite()
    order = values.argsort()
    among = torch.where(counts, weights.double(), 0.0)[order].expand(len(values), -1).clone()
    among[torch.arange(len(values)), order.argsort()] = 0.0  # without its own
    sums = among.cumsum(1)
    middle = (2 * sums >= sums[:, -1:]).double().argmax(1)
    return values[order][middle].masked_fill(sums[:, -1] == 0, 0.0)


def median_of_others(values: Tensor) -> Tensor:
    """For each value, the median of the others that are positive and finite; 0 where there is none."""
    counts = (values > 0) & values.isfinite()
    order = values[counts].sort().values
    if not len(order):
        return torch.zeros_like(values)
    found = torch.full_like(values, float(order.quantile(0.5)))
    if len(order) == 1:
        return found.masked_fill(counts, 0.0)
    rank = torch.searchsorted(order, values[counts])
    halves = [order[place + (place >= rank)] for place in ((len(order) - 2) // 2, (len(order) - 1) // 2)]
    found[counts] = (halves[0] + halves[1]) / 2
    return found
