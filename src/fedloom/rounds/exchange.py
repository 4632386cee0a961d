"""One exchange with some clients: a wave goes out, replies come back, and a ledger records the cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fedloom.core.errors import Abandoned, Diverged
from fedloom.core.message import Replies, Wave
from fedloom.core.server_context import ServerContext
from fedloom.rounds.composition import Composition
from fedloom.rounds.jobs import Engine, Job, Tensors
from fedloom.rounds.run_state import RunState
from fedloom.training.execution import cohorts


@dataclass
class Ledger:
    """What a round has cost so far, who took part, and what was measured of them."""

    bytes_down: int = 0
    bytes_up: int = 0
    bytes_between: int = 0
    steps: int = 0
    selected: set[int] = field(default_factory=set)
    measured: dict[int, dict[str, float]] = field(default_factory=dict)
    findings: dict[str, float] = field(default_factory=dict)
    """What an adversary found, by the names of the records."""

    def send(self, wave: Wave) -> None:
        """Add the bytes that a wave sends to its clients, including those that will not answer."""
        down = wave.message.bytes_for(len(wave.ids))
        near = 0 if wave.from_server is None else int((~wave.from_server).sum())
        self.bytes_between += down * near // len(wave.ids)
        self.bytes_down += down - down * near // len(wave.ids)

    def receive(self, wave: Wave, merged: Tensors, communicates: bool) -> None:
        """Add the steps, bytes and measurements of a wave's replies."""
        ids = wave.ids
        self.selected.update(ids)
        self.steps += int(merged["steps"].sum())
        if communicates:
            sent = merged["bytes"] if wave.to_server is None else merged["bytes"][wave.to_server]
            self.bytes_up += int(sent.sum())
        for name in (name for name in merged if name.startswith(("received/", "trained/"))):
            for client, value in zip(ids, merged[name].tolist(), strict=True):
                self.measured.setdefault(client, {})[name] = value


def exchange(
    run: Composition, engine: Engine, state: RunState, context: ServerContext, wave: Wave, ledger: Ledger, measure: bool
) -> Replies:
    """Send a wave, wait for the replies, and store the clients' state."""
    participants = run.participants(context.round)
    if run.hostile is not None:
        wave = run.hostile.poison_wave(wave, context)
    places = {client: place for place, client in enumerate(wave.ids)}
    jobs = [
        Job("update", context.round, cohort, [places[client] for client in cohort], measure, wave.turn)
        for cohort in cohorts(wave.ids, participants.federation.train.sizes, run.execution)
    ]
    if run.algorithm.communicates:
        ledger.send(wave)
    jobs, results, answered = answers(jobs, engine.run(jobs, wave.message, state.client_states.read(wave.ids)))
    need = 0 if wave.optional else min(run.quorum, len(wave.ids))
    if len(answered) < need:
        raise Abandoned(f"{len(answered)} of {len(wave.ids)} clients answered, but {need} are needed")
    wave = wave.only(answered)
    for result in results:
        check_finite(run, result, context.round)
    nothing = {name: torch.zeros(0, dtype=torch.int64) for name in ("steps", "samples", "bytes")}
    sent = [{name: t for name, t in result.items() if not name.startswith("kept/")} for result in results]
    merged = nothing | merge(jobs, sent)
    for job, result in zip(jobs, results, strict=True):
        state.client_states.write(job.ids, with_prefix(result, "kept/"))
    ledger.receive(wave, merged, run.algorithm.communicates)
    samples = merged["samples"]
    replies = Replies(
        ids=wave.ids,
        tensors=run.channel.decode(with_prefix(merged, "reply/"), wave.message),
        samples=samples,
        steps=merged["steps"],
        weights=run.weigh(samples, merged["steps"]),
        shares=participants.shares[torch.tensor(wave.ids, dtype=torch.int64)],
        aggregator=run.aggregator,
        clients=len(participants.clients),
        context=context,
    )
    if run.hostile is not None:
        ledger.findings |= run.hostile.findings(wave, replies)
    return replies


def answers(jobs: list[Job], results: Sequence[Tensors | None]) -> tuple[list[Job], list[Tensors], list[int]]:
    """The completed jobs, their results, and the places in the wave of the clients that answered.

    The places of the returned jobs count only those clients.
    """
    pairs = [(job, result) for job, result in zip(jobs, results, strict=True) if result is not None]
    places = sorted(place for job, _ in pairs for place in job.places)
    if len(pairs) == len(jobs):
        return jobs, [result for _, result in pairs], places
    rank = {place: number for number, place in enumerate(places)}
    moved = [replace(job, places=[rank[place] for place in job.places]) for job, _ in pairs]
    return moved, [result for _, result in pairs], places


def merge(jobs: list[Job], results: list[Tensors]) -> Tensors:
    """The results of all jobs as one, in the order of the clients' places."""
    count, merged = sum(len(job.places) for job in jobs), {}
    for name, first in results[0].items() if results else ():
        merged[name] = first.new_empty((count, *first.shape[1:]))
        for job, result in zip(jobs, results, strict=True):
            merged[name].index_copy_(0, torch.tensor(job.places), result[name])
    return merged


def with_prefix(tensors: Tensors, prefix: str) -> Tensors:
    """The tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def check_finite(run: Composition, result: Tensors, number: int) -> None:
    """Raise an error if clients sent or kept a value that is not finite."""
    for name, tensor in result.items():
        sent = name.startswith(("reply/", "kept/")) and tensor.is_floating_point()
        if sent and not _finite(tensor):
            raise _divergence(run, number, "what clients sent back")


def check_values(run: Composition, number: int, values: Iterable[float]) -> None:
    """Raise an error if a score is not finite."""
    if not _finite(torch.tensor(list(values), dtype=torch.float64)):
        raise _divergence(run, number, "the loss")


def _finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor.sum())) or bool(torch.isfinite(tensor).all())


def _divergence(run: Composition, number: int, what: str) -> Diverged:
    """The error for a run whose numbers are no longer finite."""
    return Diverged(
        f"{type(run.algorithm).__name__.lower()} diverged in round {number}: {what} is no longer finite (NaN or "
        f"infinity); try a learning rate below {run.setting.work.lr:g} or a gradient clip."
    )


def blocks(ids: list[int], size: int) -> Iterator[tuple[list[int], list[int]]]:
    """Ids in blocks, each with the places of its ids."""
    for start in range(0, len(ids), size):
        some = ids[start : start + size]
        yield some, list(range(start, start + len(some)))
