"""Clients that train on other samples than they hold, in some rounds.

The other samples stand behind all others in the same columns, and only lists of training positions differ: the samples
of other clients stay as they are, also where they are the same, and so does everybody's test part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedloom.data.federation import Federation, Ragged


@dataclass(frozen=True)
class ReplacedSamples:
    """What a client trains on instead of some of its samples.

    Args:
        client: The client.
        positions: The positions of the samples that are replaced, ascending.
        samples: The samples that replace them, in the same order: the rows of each column.
    """

    client: int
    positions: Tensor
    samples: Mapping[str, Tensor]


def with_replaced_samples(
    federation: Federation, replaced: list[ReplacedSamples], first: int = 1, last: int | None = None
) -> Federation:
    """A federation some of whose clients train on other samples from one round to another.

    Args:
        federation: The federation as it is without that; its data may change over rounds.
        replaced: What is replaced, once for a client.
        first: The first round.
        last: The last round; None for all that follow.
    """
    if not replaced:
        return federation
    rows = len(federation.columns["y"])
    columns = {
        name: torch.cat([column, *(one.samples[name] for one in replaced)])
        for name, column in federation.columns.items()
    }
    group = federation.group
    if group is not None:  # what shares raw material with a test sample still does
        group = torch.cat([group, *(group[one.positions] for one in replaced)])
    starts = dict[int, int]()
    for one in replaced:
        starts[one.client], rows = rows, rows + len(one.positions)

    def change(state: Federation, round_number: int) -> Federation:
        state = replace(state, columns=columns, group=group, later=())
        if not first <= round_number <= (last or math.inf):
            return state
        order = state.train.order.clone()
        for one in replaced:
            own = order[int(state.train.starts[one.client]) : int(state.train.starts[one.client + 1])]  # a view
            place = torch.searchsorted(one.positions, own).clamp(max=len(one.positions) - 1)
            own.copy_(torch.where(one.positions[place] == own, starts[one.client] + place, own))
        return replace(state, train=Ragged(order, state.train.starts))

    changes = {since for since, _ in federation.later} | ({first} if first > 1 else set())
    changes |= set() if last is None else {last + 1}
    later = tuple((since, change(federation.at(since), since)) for since in sorted(changes))
    return replace(change(federation, 1), later=later)  # what happens before round 1 sees what round 1 sees
