"""One exchange with some clients of which the server learns only a sum.

Nothing can be said of single replies here: no bound, no clip and no robust rule sees them. A client whose update is not
finite sends nothing, and is named.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from fedloom.core.errors import Abandoned, Diverged, FedloomError
from fedloom.core.message import Replies, Wave, message_digest
from fedloom.core.model.sub_models import SubModelDraw
from fedloom.core.server_context import ServerContext
from fedloom.rounds.client_privacy import count_uses
from fedloom.rounds.composition import Composition
from fedloom.rounds.jobs import Engine, Job
from fedloom.rounds.ledger import Ledger
from fedloom.rounds.results import answers, drop_places, merge, with_prefix
from fedloom.rounds.run_state import RunState
from fedloom.secure.sum_step import SumSession
from fedloom.secure.sums import Sums


def summed_exchange(
    run: Composition,
    engine: Engine,
    state: RunState,
    context: ServerContext,
    wave: Wave,
    ledger: Ledger,
    measure: bool,
    sums: Sums,
) -> Replies:
    """Send a wave, wait for the sum of the replies, and store the clients' state: replies of one row, the mean."""
    participants, step = run.participants(context.round), sums.step
    if run.hostile is not None:
        wave = run.hostile.poison_wave(wave, context)
    samples = participants.federation.train.sizes
    most = sums.most(samples[torch.tensor(wave.ids)])
    sent = run.down_channel.encode(wave.message, SubModelDraw(run.setting.seed, context.round, wave.turn, wave.ids))
    if sent.each:
        raise FedloomError(
            f"clients get {next(iter(sent.each))} each of their own, so their changes are not of one model and cannot "
            f"be added: leave out {type(step).__name__.lower()}."
        )
    run_name, start = f"seed {run.setting.seed}", message_digest(sent.shared)
    session = SumSession(run_name, context.round, wave.turn, tuple(wave.ids), most, start)
    step.check_session(session)
    places = {client: place for place, client in enumerate(wave.ids)}
    jobs = [
        Job("update", context.round, cohort, [places[client] for client in cohort], measure, wave.turn, session)
        for cohort in run.cohorts(wave.ids, samples)
    ]
    ledger.send(replace(wave, message=sent))
    wave = replace(wave, message=run.down_channel.server_view(wave.message))
    summed = engine.sum(jobs, sent, state.client_states.read(wave.ids), step, session)
    jobs, results, _ = answers(jobs, [None if one is None else dict(one) for one in summed.results])
    count_uses(run, state, jobs, results, sum(len(job.ids) for job in jobs), context.round)  # nobody can be taken out
    included = set(summed.total.ids)
    need = run.answers_needed(len(wave.ids))
    if len(included) < need:
        raise Abandoned(f"{len(included)} of {len(wave.ids)} clients are in the sum, but {need} are needed")
    asked = {client: place for job in jobs for client, place in zip(job.ids, job.places, strict=True)}
    left_out = [client for client in asked if client not in included]
    for client in left_out:
        reason = "its row is not in the sum: it is not finite, or was refused"
        engine.exclude(client, run.task.federation.name(client), "update", reason)
    jobs, results = drop_places(jobs, results, {asked[client] for client in left_out})
    for job, result in zip(jobs, results, strict=True):
        state.client_states.write(job.ids, with_prefix(result, "kept/"))
    decoded = step.decode_total(summed.total, session)
    _check_weight(decoded.weight, len(included), most)
    tensors = sums.means(decoded, wave.message, most)
    strange = [name for name, rows in tensors.items() if not bool(torch.isfinite(rows).all())]
    if strange:
        raise Diverged(f"the sum of {strange[0]} in round {context.round} is no longer finite.")
    ids = [client for client in wave.ids if client in included]
    merged = merge(jobs, results)
    ledger.receive_sum(ids, merged, summed, decoded.scaled)
    index = torch.tensor(ids, dtype=torch.int64)
    return Replies(
        ids=ids,
        tensors=tensors,
        samples=samples[index].sum()[None],
        steps=merged["steps"].sum()[None],
        weights=torch.ones(1),
        shares=participants.shares[index].sum()[None],
        aggregator=run.aggregator,
        clients=len(participants.clients),
        context=context,
    )


def _check_weight(weight: int, clients: int, most: int) -> None:
    """Give up a sum whose weight cannot be that of its clients: one of them has lied, and nobody sees who."""
    if not 0 < weight <= most * clients:
        raise Abandoned(
            f"the sum of {clients} clients has a weight of {weight:,}, and theirs are at most {most:,} each"
        )
