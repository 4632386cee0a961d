"""Which clients work in a round: the selector is called, and it may ask clients for the loss and score of their models.

Places of a pool become ids of clients, or numbers of groups where the method trains groups. Clients that cannot be
reached are replaced by others that can, as far as there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from fedloom.core.algorithm import groups_of
from fedloom.core.selector import Choice, Pool, Probe, check_choice
from fedloom.core.server_context import ServerContext
from fedloom.rounds.composition import Composition
from fedloom.rounds.jobs import Engine, Job, Tensors, answered_jobs, merge
from fedloom.rounds.round_costs import RoundCosts
from fedloom.rounds.run_state import RunState


def select_clients(
    run: Composition, engine: Engine, state: RunState, context: ServerContext, costs: RoundCosts
) -> Choice:
    """Call the selector; its places become ids of clients, or numbers of groups where the method trains groups."""
    groups, participants = groups_of(run.algorithm, state.server), run.participants(context.round)
    clients, samples = participants.clients, participants.samples
    if groups is not None:
        samples = torch.stack([participants.counted[torch.tensor(group)].sum() for group in groups])

    def ask(places: Sequence[int]) -> Probe:
        members = [[clients[place]] if groups is None else groups[place] for place in places]
        everyone = [client for group in members for client in group]
        replies = _probe_clients(run, engine, state, context, everyone, costs)
        counted = torch.minimum(replies["samples"], participants.counted[torch.tensor(everyone)].double())
        owner = torch.repeat_interleave(torch.arange(len(places)), torch.tensor([len(group) for group in members]))
        weight = torch.zeros(len(places)).index_add_(0, owner, counted.float()).clamp(min=1)
        sums = [
            torch.zeros(len(places)).index_add_(0, owner, (replies[name] * counted).float())
            for name in ("loss", "score")
        ]
        return Probe(*(total / weight for total in sums))

    setting = run.setting
    pool = Pool(
        *(samples, setting.seed, context.round, setting.rounds, state.selection, ask),
        grouped=groups is not None,
        least=run.aggregator.least_clients,
        secret=run.draws_are_secret,
    )
    choice = check_choice(run.select(pool), pool, run.select)
    if groups is not None:
        return choice
    ids, lost = ([clients[place] for place in places] for places in (choice.places, choice.lost))
    if lost and run.exchanges:  # they were sent what the others got, and nothing came back
        costs.bytes_down += run.algorithm.broadcast(state.server, lost).bytes_for(len(lost))
    if run.present is not None:
        failed = set(lost)
        ids = _replace_absent(ids, [client for client in run.reachable(clients) if client not in failed], context)
    return replace(choice, places=ids, lost=lost)


def _replace_absent(ids: list[int], reachable: list[int], context: ServerContext) -> list[int]:
    """The selected clients; those who cannot be reached are replaced at random, as far as others can be."""
    there, selected = set(reachable), set(ids)
    absent, free = [c for c in ids if c not in there], [c for c in reachable if c not in selected]
    stand_ins = context.numpy_generator("stand-ins").permutation(free)[: len(absent)].astype(int).tolist()
    return sorted([c for c in ids if c in there] + stand_ins + absent[len(stand_ins) :])


def _probe_clients(
    run: Composition, engine: Engine, state: RunState, context: ServerContext, ids: list[int], costs: RoundCosts
) -> Tensors:
    """What some clients' current models score on their own data; costs a model down and two numbers up for each."""
    on_training = getattr(run.select, "loss_on", "validation") == "training"
    jobs = [Job("ask", context.round, some, places, measure=on_training) for some, places in run.blocks(ids)]
    message = run.down_channel.encode(run.algorithm.broadcast(state.server, ids))
    if run.exchanges:
        costs.bytes_down += message.bytes_for(len(ids))
        costs.bytes_up += 8 * len(ids)
    jobs, results, answered = answered_jobs(jobs, engine.run(jobs, message, state.client_states.read(ids)))
    replies = merge(jobs, results)  # of a client that does not answer nothing is known: zeros
    places = torch.tensor(answered, dtype=torch.int64)
    return {
        name: torch.zeros(len(ids), dtype=torch.float64).index_copy(0, places, replies[name].double())
        if name in replies
        else torch.zeros(len(ids))
        for name in ("loss", "score", "samples")
    }
