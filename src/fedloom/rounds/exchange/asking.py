"""Asking clients, the middle of every exchange: for their rows, or in phases for a sum that hides them.

These are the two ways of asking, and a run has one of them. Where clients are does not matter here: an engine of a
simulation does the jobs, and that of a deployment sends them to sites.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import ClassVar, Protocol

import torch

from fedloom.core.errors import Abandoned, Diverged, FedloomError
from fedloom.core.message import Message, Wave, message_digest
from fedloom.rounds.answers import Answers, WorkAbandoned
from fedloom.rounds.composition import Composition
from fedloom.rounds.jobs import Job, Tensors
from fedloom.rounds.round_context import RoundContext
from fedloom.secure.sum_step import SumSession
from fedloom.secure.sums import Summed, Sums

log = logging.getLogger("fedloom")


class Asking(Protocol):
    """A way of asking."""

    out: ClassVar[str]
    back: ClassVar[str]

    def __call__(self, wave: Wave, round: RoundContext) -> Answers:
        """The answers of a wave's clients."""


class AskRows:
    """Every client's own reply comes back."""

    out: ClassVar[str] = "gives each cohort its job"
    back: ClassVar[str] = "collects the clients' replies"

    def __call__(self, wave: Wave, round: RoundContext) -> Answers:
        """The answers of a wave's clients, each with its reply."""
        kept, jobs = round.state.client_states.read(wave.ids), list[Job]()
        results: list[Tensors | None] = []
        places = {client: place for place, client in enumerate(wave.ids)}
        for ids, message in wave.forms or [(wave.ids, wave.message)]:
            # Not all clients get the message in the same form: these jobs are of one form, in the places that
            # their clients have in the whole wave.
            some = update_jobs(replace(wave, ids=ids), round, places)
            round.costs.send(replace(wave.only([places[client] for client in ids]), message=message))
            jobs += some
            results += round.engine.run(some, message, kept)
        needed = 0 if wave.optional else round.run.answers_needed(len(wave.ids))
        return Answers.collect(round, wave, jobs, results, needed)


class AskSum:
    """The clients' weighted sum comes back, and nothing else of their replies.

    So nothing can be said of single replies: no bound, no clip and no robust rule sees them. A client whose update is
    not finite sends nothing, and is named.
    """

    out: ClassVar[str] = "gives each cohort its job, and agrees on the terms of the sum"
    back: ClassVar[str] = "opens the sum of the replies, whose mean is the only row"

    def __init__(self, sums: Sums) -> None:
        self.sums = sums

    def __call__(self, wave: Wave, round: RoundContext) -> Answers:
        """The answers of a wave's clients, with one row for all of them."""
        [(_, message)] = wave.forms or [(wave.ids, wave.message)]  # one form: all start from the same bytes
        session = self._session(wave, message, round)
        jobs = update_jobs(wave, round, {client: place for place, client in enumerate(wave.ids)}, session)
        round.costs.send(replace(wave, message=message))
        kept = round.state.client_states.read(wave.ids)
        summed = round.engine.sum(jobs, message, kept, self.sums.step, session)
        round.costs.bytes_up += summed.bytes_up
        round.costs.bytes_down += summed.bytes_down
        # What the phases of the sum cost is counted above: a client's own reply has cost nothing besides.
        results = [None if one is None else {**one, "bytes": torch.zeros_like(one["bytes"])} for one in summed.results]
        answers = Answers.collect(round, wave, jobs, results, needed=0)
        try:
            return self._open(summed, session, answers)
        except Abandoned as why:
            raise WorkAbandoned(str(why), answers.arrived) from None

    def _session(self, wave: Wave, message: Message, round: RoundContext) -> SumSession:
        """What everybody knows of the sum of a wave."""
        step, samples = self.sums.step, round.run.participants(round.number).counted
        if message.each:
            raise FedloomError(
                f"clients get {next(iter(message.each))} each of their own, so their changes are not of one model and "
                f"cannot be added: leave out {type(step).__name__.lower()}."
            )
        most = self.sums.most(samples[torch.tensor(wave.ids)])
        run_name, start = f"seed {round.run.setting.seed}", message_digest(message.shared)
        session = SumSession(run_name, round.number, wave.turn, tuple(wave.ids), most, start)
        step.check_session(session)
        return session

    def _open(self, summed: Summed, session: SumSession, answers: Answers) -> Answers:
        """The answers of the clients that are in a sum, with the mean of their replies as the only row."""
        round, included = answers.round, set(summed.total.ids)
        needed = 0 if answers.wave.optional else round.run.answers_needed(answers.asked)
        if len(included) < needed:
            raise Abandoned(f"{len(included)} of {answers.asked} clients are in the sum, but {needed} are needed")
        # Who answered is not who counts: a client may have trained, and still not be in the sum.
        reason = "its row is not in the sum: it is not finite, or was refused"
        lost = {place: reason for place, client in enumerate(answers.wave.ids) if client not in included}
        decoded = self.sums.step.decode_total(summed.total, session)
        _check_weight(decoded.weight, len(included), session.most)
        if decoded.scaled:
            findings = round.costs.findings
            findings["sums/scaled"] = findings.get("sums/scaled", 0.0) + decoded.scaled
            instead = "raise its limit" if hasattr(self.sums.step, "limit") else "use securesum with a larger limit"
            step = type(self.sums.step).__name__.lower()
            told = "round %s: %s of %s replies did not fit in the sum of %s and were made smaller: %s."
            log.warning(told, round.number, decoded.scaled, len(included), step, instead)
        shapes = None if answers.wave.shapes is None else answers.wave.shapes()
        means = self.sums.means(decoded, answers.wave.message, session.most, shapes)
        strange = [name for name, rows in means.items() if not bool(torch.isfinite(rows).all())]
        if strange:
            raise Diverged(f"the sum of {strange[0]} in round {round.number} is no longer finite.")
        return replace(answers.without(lost), decoded=means, summed=True, needed=needed)


def asking_of(run: Composition) -> Asking:
    """The way in which a run asks its clients.

    Args:
        run: What the run is made of.
    """
    return AskRows() if run.sums is None else AskSum(run.sums)


def update_jobs(
    wave: Wave, round: RoundContext, places: dict[int, int], session: SumSession | None = None
) -> list[Job]:
    """The jobs of a wave, one per cohort of clients that train together.

    Args:
        wave: The wave, or a part of it.
        places: The places of the clients in the whole wave.
        session: What is known of the sum that the jobs are for, if they are for one.
    """
    sizes = round.run.participants(round.number).federation.train.sizes
    return [
        Job("update", round.number, ids, [places[client] for client in ids], round.measure, wave.turn, session)
        for ids in round.run.cohorts(wave.ids, sizes)
    ]


def _check_weight(weight: int, clients: int, most: int) -> None:
    """Give up a sum whose weight cannot be that of its clients: one of them has lied, and nobody sees who."""
    if not 0 < weight <= most * clients:
        raise Abandoned(
            f"the sum of {clients} clients has a weight of {weight:,}, and theirs are at most {most:,} each"
        )
