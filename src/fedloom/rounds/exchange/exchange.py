"""One exchange with some clients: a wave goes out, replies come back, and a ledger records the cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from fedloom.channel.channel import base_of
from fedloom.channel.model_differences import note_references
from fedloom.core.declarations import Model
from fedloom.core.errors import Abandoned, Diverged, FedloomError
from fedloom.core.message import Replies, Wave
from fedloom.core.model.sub_models import SubModelDraw
from fedloom.core.server_context import ServerContext
from fedloom.rounds.client_privacy import count_uses
from fedloom.rounds.composition import Composition
from fedloom.rounds.exchange.screening import Say, clip_changes, not_finite
from fedloom.rounds.exchange.silence import NothingSent, silent_places
from fedloom.rounds.exchange.summed_exchange import summed_exchange
from fedloom.rounds.jobs import Engine, Job, Tensors
from fedloom.rounds.ledger import Ledger
from fedloom.rounds.results import answers, drop_places, merge, with_prefix
from fedloom.rounds.run_state import RunState


def exchange(
    run: Composition, engine: Engine, state: RunState, context: ServerContext, wave: Wave, ledger: Ledger, measure: bool
) -> Replies:
    """Send a wave, wait for the replies, and store the clients' state."""
    if run.sums is not None:
        return summed_exchange(run, engine, state, context, wave, ledger, measure, run.sums)
    participants = run.participants(context.round)
    if run.hostile is not None:
        wave = run.hostile.poison_wave(wave, context)
    places = {client: place for place, client in enumerate(wave.ids)}
    draw = SubModelDraw(run.setting.seed, context.round, wave.turn, wave.ids)
    outgoing, kept = run.down_channel.outgoing(wave.message, draw, ledger.down), state.client_states.read(wave.ids)
    asked_for: list[Job] = []
    came: list[Tensors | None] = []
    for ids, sent in outgoing.parts:
        some = [
            Job("update", context.round, cohort, [places[client] for client in cohort], measure, wave.turn)
            for cohort in run.cohorts(ids, participants.federation.train.sizes)
        ]
        if run.algorithm.communicates:
            ledger.send(replace(wave.only([places[client] for client in ids]), message=sent))
        asked_for += some
        came += engine.run(some, sent, kept)
    jobs, results, answered = answers(asked_for, came)
    wave = replace(wave, message=outgoing.view)
    need = 0 if wave.optional else run.answers_needed(len(wave.ids))
    enough = len(answered) >= need
    exhausted = count_uses(run, state, jobs, results, need if enough else 0, context.round)  # what arrived has left
    if not enough:
        raise Abandoned(f"{len(answered)} of {len(wave.ids)} clients answered, but {need} are needed")
    asked, wave = len(wave.ids), wave.only(answered)
    if exhausted:
        wave = _leave_out(run, engine, wave, exhausted, (need, asked), context.round)
        jobs, results = drop_places(jobs, results, exhausted)
    quiet = silent_places(jobs, results)
    if quiet:
        wave, jobs, results = _leave_silent(run, state, wave, jobs, results, quiet, ledger)
        need = min(need, len(wave.ids))
    refused = not_finite(jobs, results)
    if refused:
        wave = _leave_out(run, engine, wave, refused, (need, asked), context.round)
        jobs, results = drop_places(jobs, results, refused)
    merged, decoded = _join(run, wave, jobs, results)
    if run.hostile is not None:
        decoded = run.hostile.collude(run.algorithm, wave, decoded)
    say = _say(run, merged)
    verdict = run.screen.judge(run.algorithm, wave, decoded, say, state.norms)
    refused = {**run.algorithm.refusals(wave.message, decoded), **verdict.refused}
    scales = verdict.scales
    for place, reason in verdict.clipped.items():
        if place not in refused:
            engine.remark(wave.ids[place], run.task.federation.name(wave.ids[place]), "clipped", reason)
    if refused:
        left = torch.tensor([place for place in range(len(wave.ids)) if place not in refused], dtype=torch.int64)
        scales, merged, decoded = (
            {name: tensor[left] for name, tensor in tensors.items()} for tensors in (scales, merged, decoded)
        )
        wave = _leave_out(run, engine, wave, refused, (need, asked), context.round)
        jobs, results = drop_places(jobs, results, refused)
        say = _say(run, merged)
    decoded = clip_changes(run.algorithm, wave, decoded, scales)
    ledger.norms.append(verdict.norms)
    for job, result in zip(jobs, results, strict=True):
        state.client_states.write(job.ids, with_prefix(result, "kept/"))
    if run.privacy is not None:
        _refuse_unprotected(run, decoded)
    ledger.receive(wave, merged, run.algorithm.communicates)
    ledger.down = note_references(outgoing, wave.ids)
    replies = Replies(
        ids=wave.ids,
        tensors=decoded,
        samples=say.samples,
        steps=merged["steps"],
        weights=say.weights,
        shares=participants.shares[torch.tensor(wave.ids, dtype=torch.int64)],
        aggregator=run.aggregator,
        clients=len(participants.clients),
        context=context,
        origins=_origins(run, wave, decoded),
        memory=ledger.memory,
        expected=None if run.privacy is None else run.privacy.expected,
    )
    if run.hostile is not None:
        ledger.findings |= run.hostile.findings(wave, replies)
    return replies


def _say(run: Composition, merged: Tensors) -> Say:
    """How much each client of a wave has to say."""
    return Say(merged["samples"], run.weigh(merged["samples"], merged["steps"]))


def _join(run: Composition, wave: Wave, jobs: list[Job], results: list[Tensors]) -> tuple[Tensors, Tensors]:
    """What the clients of a wave sent, in their order, and their replies, decoded."""
    nothing = {name: torch.zeros(0, dtype=torch.int64) for name in ("steps", "samples", "bytes")}
    sent = [{name: t for name, t in result.items() if not name.startswith("kept/")} for result in results]
    merged = nothing | merge(jobs, sent)
    return merged, run.channel.decode(with_prefix(merged, "reply/"), wave.message)


def _refuse_unprotected(run: Composition, decoded: Tensors) -> None:
    """Refuse a reply that no noise protects: its method does not say that it is only averaged."""
    strange = [name for name in decoded if name not in run.algorithm.averaged]
    if strange:
        raise FedloomError(
            f"{_method_name(run)} replies with {strange[0]}, which it does not name in averaged, so it would leave its "
            "clients without protection: add it, or drop privatemean."
        )


def _origins(run: Composition, wave: Wave, decoded: Tensors) -> dict[str, Tensor]:
    """What clients started from, by the names of their replies that are weights."""
    weights = [n for n in decoded if isinstance(run.algorithm.declaration(n, wave.message), Model)]
    found = {name: base_of(run.algorithm, name, wave.message, decoded) for name in weights}
    return {name: row for name, row in found.items() if row is not None}


def _leave_silent(
    run: Composition,
    state: RunState,
    wave: Wave,
    jobs: list[Job],
    results: list[Tensors],
    quiet: list[int],
    ledger: Ledger,
) -> tuple[Wave, list[Job], list[Tensors]]:
    """The wave, the jobs and their results without the clients that sent nothing, whose costs and state are noted."""
    loud = [place for place in range(len(wave.ids)) if place not in quiet]
    silent_jobs, flags = drop_places(jobs, results, loud)
    flags = [{name: t for name, t in result.items() if not name.startswith("reply/")} for result in flags]
    for job, result in zip(silent_jobs, flags, strict=True):
        state.client_states.write(job.ids, with_prefix(result, "kept/"))
    ledger.receive(wave.only(quiet), merge(silent_jobs, flags), run.algorithm.communicates)
    if len(loud) < max(1, run.aggregator.least_clients) and not wave.optional:
        raise NothingSent
    return wave.only(loud), *drop_places(jobs, results, quiet)


def _leave_out(
    run: Composition, engine: Engine, wave: Wave, refused: Mapping[int, str], needed: tuple[int, int], number: int
) -> Wave:
    """The wave without the clients at some places, who are named; an error if too few remain (of how many)."""
    for place, reason in refused.items():
        client = wave.ids[place]
        engine.exclude(client, run.task.federation.name(client), "update", reason)
    rest, (need, asked), first = len(wave.ids) - len(refused), needed, min(refused)
    if rest < need:
        why = f"client {run.task.federation.name(wave.ids[first])}: {refused[first]}"
        found = f"the replies of {rest} of {asked} clients count, but {need} are needed ({why})"
        if run.quorum is not None:
            raise Abandoned(found)
        raise Diverged(f"{_method_name(run)} diverged in round {number}: {found}; {_advice(run)}")
    return wave.only([place for place in range(len(wave.ids)) if place not in refused])


def check_values(run: Composition, number: int, values: Iterable[float]) -> None:
    """Raise an error if a score is not finite."""
    if not _finite(torch.tensor(list(values), dtype=torch.float64)):
        raise _divergence(run, number, "the loss")


def _finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor.sum())) or bool(torch.isfinite(tensor).all())


def _divergence(run: Composition, number: int, what: str) -> Diverged:
    """The error for a run whose numbers are no longer finite."""
    return Diverged(
        f"{_method_name(run)} diverged in round {number}: {what} is no longer finite (NaN or infinity); {_advice(run)}"
    )


def _method_name(run: Composition) -> str:
    return type(run.algorithm).__name__.lower()


def _advice(run: Composition) -> str:
    return f"try a learning rate below {run.setting.work.lr:g} or a gradient clip."
