"""Two sums whose clients differ by one give that client's update away: what one has more is what it sent.

Of weighted means ``a`` over some clients and ``b`` over the same without client c, whose weight among all is w,
``update of c = (a - (1 - w) b) / w``. It is exact where the others sent the same twice, as to a server that sends one
model in two rounds; between the rounds of an honest server the others' updates have moved too, and their difference is
in it, divided by w. Nothing of it needs the protocol to fail: it is in what the sums say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from fedloom.attacks.seen_updates import Seen


def sum_differences(sums: Sequence[Seen]) -> list[Seen]:
    """The updates of single clients that sums give away; none where no two sums differ by one client.

    Args:
        sums: What a server saw in the rounds of a run.

    Returns:
        What each sum says of a client that the sum nearest to it in time had not, as if the server had seen it.
    """
    found = []
    for larger in sums:
        smaller = [other for other in sums if set(other.clients) < set(larger.clients)]
        fitting = [other for other in smaller if len(other.clients) == len(larger.clients) - 1]
        for client in sorted({missing for other in fitting for missing in set(larger.clients) - set(other.clients)}):
            without = [other for other in fitting if client not in other.clients]
            found.append(difference(larger, min(without, key=lambda other: rounds_apart(other, larger)), client))
    return found


def difference(larger: Seen, smaller: Seen, client: int) -> Seen:
    """What a client sent, by two sums.

    Args:
        larger: A sum that it is in.
        smaller: The same without it.
    """
    samples = larger.context.samples[torch.tensor(larger.clients)]
    weights = larger.context.weigh(samples, torch.ones_like(samples))
    weight = float(weights[larger.clients.index(client)])
    change = (larger.change - (1 - weight) * smaller.change) / weight
    return replace(larger, clients=(client,), change=change, samples=int(larger.context.samples[client]))


def rounds_apart(one: Seen, other: Seen) -> int:
    """How many rounds lie between two sums.

    Args:
        one: A sum.
        other: Another one.
    """
    return abs(one.context.round - other.context.round)
