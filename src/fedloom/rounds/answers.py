"""What the clients of a wave answered: the one type that flows back to the server, with typed fields.

``Answers.without`` is the only way in which a station rejects an answer. It names the client, checks that enough are
left, and takes the client out of everything at once: of the wave, of replies, of costs, and so of the weights, which
are computed of those that are left. ``Answers.without_broken`` does that to clients of whom it is certain that they are
hostile or broken, ``Answers.split`` sets aside clients that have answered and have nothing to send.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from fedloom.channel.channel import base_of
from fedloom.core.declarations import Model, declaration_of
from fedloom.core.errors import Abandoned, Diverged
from fedloom.core.message import Replies, Wave
from fedloom.rounds.client_work import ClientWork, report_nothing
from fedloom.rounds.composition import Composition
from fedloom.rounds.jobs import CohortAnswer, Job, Tensors, answered_jobs, merge
from fedloom.rounds.round_context import RoundContext
from fedloom.rounds.screen import Influence


@dataclass(frozen=True)
class Arrived:
    """Who did the work that a wave asked for, whatever becomes of the answers later.

    Args:
        ids: The clients.
        steps: How many gradient steps each of them made.
    """

    ids: Sequence[int]
    steps: Tensor


class WorkAbandoned(Abandoned):
    """A round is given up after clients have worked for it. What arrived has left them all the same."""

    def __init__(self, why: str, arrived: Arrived) -> None:
        super().__init__(why)
        self.arrived = arrived


@dataclass(frozen=True)
class Answers:
    """The answers of a wave, in the order of its clients.

    Args:
        wave: The wave as it was answered: its message as the clients got it, to the clients whose answers count so far.
        cohorts: The jobs of these clients and what each cohort answered.
        asked: How many clients the wave was sent to.
        needed: How many answers must count in the end.
        broken: How many clients sent what is no number, and were left out for that.
        arrived: Who did the work; leaving clients out later does not change that.
        decoded: The replies as the method's server gets them, joined; None while they are as they were sent.
        summed: Whether ``decoded`` is one row, the mean of all clients, of whom none can be left out any more.
    """

    round: RoundContext
    wave: Wave
    cohorts: tuple[tuple[Job, CohortAnswer], ...]
    asked: int
    needed: int
    arrived: Arrived
    decoded: Tensors | None = None
    summed: bool = False
    broken: int = 0

    @staticmethod
    def collect(
        round: RoundContext, wave: Wave, jobs: list[Job], results: Sequence[Tensors | None], needed: int
    ) -> Answers:
        """The answers to a wave's jobs; ``WorkAbandoned`` if clients are missing that the round needs.

        Args:
            wave: The wave that was sent, with its message as the clients got it.
            results: What the engine returned for each; None for a job without a result.
            needed: How many clients must have answered.
        """
        done, tensors, answered = answered_jobs(jobs, results)
        cohorts = tuple((job, CohortAnswer.unpack(result)) for job, result in zip(done, tensors, strict=True))
        arrived = arrived_of(cohorts)
        broken = len(set(wave.ids).intersection(round.engine.broken).difference(wave.ids[place] for place in answered))
        if broken:
            needed = min(needed, round.run.answers_needed(len(wave.ids), len(answered) + broken, broken))
        if len(answered) < needed:
            raise WorkAbandoned(
                f"{len(answered)} of {len(wave.ids)} clients answered, but {needed} are needed", arrived
            )
        return Answers(round, wave.only(answered), cohorts, len(wave.ids), needed, arrived, broken=broken)

    # -- what was answered

    @property
    def reply(self) -> Tensors:
        """The replies, an entry per client: decoded if they are, else as they were sent."""
        return self._sent_reply if self.decoded is None else self.decoded

    @cached_property
    def _sent_reply(self) -> Tensors:
        return merge(self._jobs, [answer.reply for _, answer in self.cohorts])

    @cached_property
    def measured(self) -> Tensors:
        """What the clients measured of the models that they received and trained."""
        return merge(self._jobs, [answer.measured for _, answer in self.cohorts])

    @cached_property
    def costs(self) -> Tensors:
        """``steps``, ``samples`` and ``bytes`` of each client."""
        nothing = {name: torch.zeros(0, dtype=torch.int64) for name in ("steps", "samples", "bytes")}
        return nothing | merge(self._jobs, [answer.costs for _, answer in self.cohorts])

    @cached_property
    def counted(self) -> tuple[Tensor, Tensor]:
        """The samples and steps that each client counts with: what it has and did, up to the limits of the run.

        Where fewer of its samples count, as many fewer of its steps do; whoever trained did so in a step at least.
        """
        samples, steps, run = self.costs["samples"], self.costs["steps"], self.round.run
        limits = {} if run.sample_limits is None else run.sample_limits()
        if not limits:
            return samples, steps
        most = torch.tensor([limits.get(client, int(has)) for client, has in zip(self.wave.ids, samples, strict=True)])
        cut = most < samples
        fewer = torch.maximum(steps * most // samples.clamp(min=1), steps.clamp(max=1))
        return torch.where(cut, most, samples), torch.where(cut, fewer, steps)

    @cached_property
    def influence(self) -> Influence:
        """How much each client counts among those who are left; a sum has weighted them already."""
        samples, steps = self.counted
        if self.summed:
            return Influence(samples.sum()[None], torch.ones(1))
        return Influence(samples, self.round.run.weigh(samples, steps))

    @property
    def _jobs(self) -> list[Job]:
        return [job for job, _ in self.cohorts]

    # -- who counts

    def without_broken(self, reasons: Mapping[int, str]) -> Answers:
        """These answers without clients who sent what is no number: the aggregator has as many fewer to withstand.

        Args:
            reasons: Why an answer does not count, by its place in the wave.
        """
        if not reasons:
            return self
        broken = self.broken + len(reasons)
        fewer = self.round.run.answers_needed(self.asked, len(self.wave.ids) + self.broken, broken)
        return replace(self, broken=broken, needed=min(self.needed, fewer)).without(reasons)

    def without(self, reasons: Mapping[int, str]) -> Answers:
        """These answers without the clients at some places, who are named with the reasons.

        Too few answers are an error: ``Abandoned`` where the round may be tried again, ``Diverged`` where nobody else
        would answer.

        Args:
            reasons: Why an answer does not count, by its place in the wave.
        """
        if not reasons:
            return self
        run, engine, names = self.round.run, self.round.engine, self.round.run.task.federation
        for place, reason in reasons.items():
            client = self.wave.ids[place]
            engine.exclude(client, names.name(client), "update", reason)
        rest, first = len(self.wave.ids) - len(reasons), min(reasons)
        if rest < self.needed:
            why = f"client {names.name(self.wave.ids[first])}: {reasons[first]}"
            found = f"the replies of {rest} of {self.asked} clients count, but {self.needed} are needed ({why})"
            if run.quorum is not None:
                raise Abandoned(found)
            raise diverged(run, self.round.number, found)
        return self._only(place for place in range(len(self.wave.ids)) if place not in reasons)

    def split(self, places: Collection[int]) -> tuple[Answers, Answers]:
        """The answers at some places, and the others, of whom no more are needed than there are: nobody is to blame.

        Args:
            places: The places of clients who have answered in time, with nothing to count.
        """
        rest = self._only(place for place in range(len(self.wave.ids)) if place not in places)
        return self._only(sorted(places)), replace(rest, needed=min(self.needed, len(rest.wave.ids)))

    def _only(self, places: Iterable[int]) -> Answers:
        kept = list(places)
        rank, index = {place: number for number, place in enumerate(kept)}, torch.tensor(kept, dtype=torch.int64)
        cohorts = []
        for job, answer in self.cohorts:
            rows = [row for row, place in enumerate(job.places) if place in rank]
            if rows:
                own = [rank[job.places[row]] for row in rows]
                part = replace(job, ids=[job.ids[row] for row in rows], places=own)
                cohorts.append((part, answer.only(torch.tensor(rows))))
        decoded = None if self.decoded is None else {name: tensor[index] for name, tensor in self.decoded.items()}
        return replace(self, wave=self.wave.only(kept), cohorts=tuple(cohorts), decoded=decoded)

    def keep(self) -> None:
        """Write what these clients keep, and add what their answers cost to the costs of the round."""
        for job, answer in self.cohorts:
            self.round.state.client_states.write(job.ids, answer.kept)
        self.round.costs.receive(self.wave, self.costs, self.measured)

    def report(self) -> None:
        """Say what these clients did, client by client; nothing where nobody may learn who takes part."""
        run, names, hears = self.round.run, self.round.run.task.federation, self.round.report
        if hears is report_nothing or run.draws_are_secret:
            return
        costs = [self.costs[name].tolist() for name in ("samples", "steps", "bytes")]
        for client, samples, steps, sent in zip(self.wave.ids, *costs, strict=True):
            work = (self.round.number, self.wave.turn, client, names.name(client), samples, steps)
            hears(ClientWork(*work, bytes_sent=sent if run.exchanges else 0))

    # -- what the method gets

    def replies(self) -> Replies:
        """The answers as the server half of the method gets them."""
        run, participants = self.round.run, self.round.run.participants(self.round.number)
        shares = participants.shares[torch.tensor(self.wave.ids, dtype=torch.int64)]
        influence, steps = self.influence, self.counted[1]
        if self.summed:  # one row stands for all clients
            steps, shares = steps.sum()[None], shares.sum()[None]
        return Replies(
            ids=self.wave.ids,
            tensors=self.reply,
            samples=influence.samples,
            steps=steps,
            weights=influence.weights,
            shares=shares,
            aggregator=run.aggregator,
            clients=len(participants.clients),
            context=self.round.server,
            origins={} if self.summed else self._origins(),
            memory=self.round.costs.memory,
            expected=None if run.privacy is None else run.privacy.expected,
            findings=self.round.costs.findings,
        )

    def _origins(self) -> dict[str, Tensor]:
        """What clients started from, by the names of their replies that are weights."""
        algorithm, message = self.round.run.algorithm, self.wave.message
        weights = [name for name in self.reply if isinstance(declaration_of(algorithm, name, message), Model)]
        found = {name: base_of(algorithm, name, message, self.reply) for name in weights}
        return {name: row for name, row in found.items() if row is not None}


def arrived_of(cohorts: Sequence[tuple[Job, CohortAnswer]]) -> Arrived:
    """Who did the work of some jobs.

    Args:
        cohorts: The jobs and their answers.
    """
    steps = [answer.costs["steps"] for _, answer in cohorts]
    ids = [client for job, _ in cohorts for client in job.ids]
    return Arrived(ids, torch.cat(steps) if steps else torch.zeros(0, dtype=torch.int64))


def diverged(run: Composition, number: int, what: str) -> Diverged:
    """The error that ends a run whose numbers have become useless.

    Args:
        run: What the run is made of.
        number: The round.
        what: What happened, as a main clause.
    """
    advice = f"try a learning rate below {run.setting.work.lr:g} or a gradient clip."
    return Diverged(f"{type(run.algorithm).__name__.lower()} diverged in round {number}: {what}; {advice}")
