"""A round's way along the chains: the j-th members of all chains train as one wave, and their models move on.

There are two ways. The server may read and pass on each model; a member that does not answer is then skipped. Or
members encrypt for the next one (``encrypt``), and the server passes on envelopes that it cannot open. A member that
does not answer then ends its chain for this round: going on without it would need the member before it to encrypt for
another one, or show its model to the server, and either is what a lying server would ask for.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import Abandoned
from fedloom.core.message import Message, Replies, Wave
from fedloom.core.relays import RELAY, Handover
from fedloom.core.seeds import generator
from fedloom.methods.fedseq.checks import inner_error

Orders = Sequence[Sequence[list[int]]]
"""The members of each chain in their order, for each pass."""
Walk = Generator[Wave, Replies, tuple[Tensor, Tensor, Replies]]
"""Yields waves; returns the rows at the chains' ends, the steps of each chain, and the replies of the last wave."""
HIDES = "lets members encrypt their models for each other, so that the server reads the chains' ends only"


def order_of(
    members: list[int], group: int, turn: int, round_number: int, seed: int, dropout: float, reshuffle: bool
) -> list[int]:
    """A chain's members in the order of one pass, without those that drop out.

    Everything that it depends on is in the plan of the run, so that a site can find its place itself.

    Args:
        members: The members of the chain.
        group: The number of the chain.
        turn: The number of the pass.
        dropout: The share of members that are left out.
        reshuffle: Whether each pass has an order of its own.
    """
    count = len(members)
    places = torch.randperm(count, generator=generator(seed, "chain", round_number, group, turn))
    if dropout:
        places = places[min(count - 1, max(1, math.ceil(dropout * count))) :]
    if not reshuffle:
        places = places.sort().values
    return [members[place] for place in places.tolist()]


def handover_in(orders: Sequence[list[int]], chain: int, client: int, turn: int) -> Handover:
    """Where a client stands in a chain, over all passes of a round.

    Args:
        orders: The members of the chain in their order, for each pass.
        turn: The pass in which the client trains.
    """
    members = [member for order in orders for member in order]
    place = sum(map(len, orders[:turn])) + orders[turn].index(client)
    before, after = members[place - 1 : place], members[place + 1 : place + 2]
    return Handover(chain, place, before[0] if before else None, after[0] if after else None)


def carry_rows(inner: Algorithm, rows: Tensor, orders: Orders) -> Walk:
    """Take rows along some chains, through a server that reads them; a member that does not answer is skipped.

    Args:
        inner: The method that members follow.
        rows: A row per chain.
    """
    steps, rows = torch.zeros(len(rows), dtype=torch.int64), rows.clone()
    for turn, on, clients, first, last in _waves(orders):
        replies = yield Wave(clients, Message(each={"row": rows[on]}), turn, first, last, optional=True)
        if not replies.ids:
            continue
        if set(replies.tensors) != {"row"}:
            raise inner_error(inner, f"its clients send back {', '.join(replies.tensors)}")
        on = on[torch.isin(torch.tensor(clients), torch.tensor(replies.ids))]
        rows[on] = replies["row"]
        steps[on] += replies.steps
    if not steps.any():
        raise Abandoned("no client of any chain answered")
    return rows, steps, replies


def carry_envelopes(rows: Tensor, orders: Orders) -> Walk:
    """Take rows along some chains in envelopes that members seal for each other.

    Args:
        rows: A row per chain.
    """
    steps, ends, envelopes = torch.zeros(len(rows), dtype=torch.int64), rows.clone(), dict[int, Tensor]()
    lost: set[int] = set()
    for turn, on, clients, first, last in _waves(orders):
        for is_end in (False, True):  # what they send has another form, so that they are asked apart
            some = [
                place for place, chain in enumerate(on.tolist()) if bool(last[place]) == is_end and chain not in lost
            ]
            if not some:
                continue
            index, ids = torch.tensor(some), [clients[place] for place in some]
            chains = on[index].tolist()
            given = {"row": rows[on[index]]}
            if not bool(first.any()):
                given = {RELAY: torch.stack([envelopes[chain] for chain in chains])}
            replies = yield Wave(ids, Message(each=given), turn, first[index], last[index], optional=True)
            found = {client: place for place, client in enumerate(replies.ids)}
            for chain, client in zip(chains, ids, strict=True):
                if client not in found:
                    lost.add(chain)
                    continue
                steps[chain] += replies.steps[found[client]]
                if is_end:
                    ends[chain] = replies["row"][found[client]]
                else:
                    envelopes[chain] = replies[RELAY][found[client]]
    steps[sorted(lost)] = 0  # nothing of a lost chain counts, whatever its members did
    if not steps.any():
        raise Abandoned("no chain came to its end")
    return ends, steps, replies


def _waves(orders: Orders) -> Iterator[tuple[int, Tensor, list[int], Tensor, Tensor]]:
    """The waves of a round: the pass, the chains that go on, the members at this place of them, and which of these get
    the server's model and which send theirs to the server."""
    passes = len(orders)
    for turn, each in enumerate(orders):
        for place in range(max(len(order) for order in each)):
            on = torch.tensor([len(order) > place for order in each]).nonzero().flatten()
            first = torch.full((len(on),), turn == place == 0)
            last = torch.tensor([turn + 1 == passes and len(each[chain]) == place + 1 for chain in on.tolist()])
            yield turn, on, [each[chain][place] for chain in on.tolist()], first, last
