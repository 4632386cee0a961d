"""Who works in a round: the selector is asked, and it may ask clients what their models score.

Places of a pool become ids of clients, or numbers of groups where the method trains groups. Clients who cannot be
reached are not chosen as long as others can stand in for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from fedloom.core.selector import Choice, Pool, Probe, checked
from fedloom.core.server_context import ServerContext
from fedloom.rounds.exchange import Ledger, blocks, done, merge
from fedloom.rounds.jobs import Engine, Job, Tensors

if TYPE_CHECKING:
    from fedloom.rounds.loop import Composition, RunState


def chosen(run: Composition, engine: Engine, state: RunState, context: ServerContext, ledger: Ledger) -> Choice:
    """Ask the selector; places become ids of clients, or numbers of groups where the method trains groups."""
    groups = run.algorithm.groups(state.server)
    members = [[client] for client in context.clients] if groups is None else groups
    sizes = run.training(context.round).train.sizes
    samples = sizes[torch.tensor(context.clients)]
    if groups is not None:
        samples = torch.stack([sizes[torch.tensor(some)].sum() for some in groups])

    def ask(places: Sequence[int]) -> Probe:
        asked = [client for place in places for client in members[place]]
        replies = _ask(run, engine, state, context, asked, ledger)
        owner = torch.repeat_interleave(torch.arange(len(places)), torch.tensor([len(members[p]) for p in places]))
        weight = torch.zeros(len(places)).index_add_(0, owner, replies["samples"].float()).clamp(min=1)
        sums = [torch.zeros(len(places)).index_add_(0, owner, (replies[k] * replies["samples"]).float()) for k in ("loss", "score")]  # fmt: skip # noqa: E501
        return Probe(*(total / weight for total in sums))

    setting = run.setting
    pool = Pool(samples, setting.seed, context.round, setting.rounds, state.selection, ask, groups is not None)
    choice = checked(run.select(pool), pool, run.select)
    if groups is not None:
        return choice
    ids, lost = ([context.clients[place] for place in places] for places in (choice.places, choice.lost))
    if lost and run.algorithm.travels:  # they were sent what the others got, and nothing came back
        ledger.bytes_down += run.algorithm.broadcast(state.server, lost).bytes_for(len(lost))
    if run.present is not None:
        ids = _stood_in(ids, [c for c in run.reachable(context.clients) if c not in lost], context)
    return replace(choice, places=ids, lost=lost)


def _stood_in(ids: list[int], there: list[int], context: ServerContext) -> list[int]:
    """The chosen clients, with others who are there, as far as there are any, for those of them who are away."""
    away, free = [c for c in ids if c not in there], [c for c in there if c not in ids]
    drawn = context.numpy_generator("stand-ins").permutation(free)[: len(away)].astype(int).tolist()
    return sorted([c for c in ids if c in there] + drawn + away[len(drawn) :])


def _ask(
    run: Composition, engine: Engine, state: RunState, context: ServerContext, ids: list[int], ledger: Ledger
) -> Tensors:
    """What some clients' current models score on their own data; costs a model down and two numbers up for each."""
    jobs = [Job("ask", context.round, some, places) for some, places in blocks(ids, run.scored_together)]
    message = run.algorithm.broadcast(state.server, ids)
    if run.algorithm.travels:
        ledger.bytes_down += message.bytes_for(len(ids))
        ledger.bytes_up += 8 * len(ids)
    jobs, results, answered = done(jobs, engine.run(jobs, message, state.client_states.read(ids)))
    replies = merge(jobs, results)  # of a client that does not answer nothing is known: zeros
    places = torch.tensor(answered, dtype=torch.int64)
    return {
        name: torch.zeros(len(ids), dtype=torch.float64).index_copy(0, places, replies[name].double())
        if name in replies
        else torch.zeros(len(ids))
        for name in ("loss", "score", "samples")
    }
