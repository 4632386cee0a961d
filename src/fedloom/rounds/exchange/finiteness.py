"""What is not a number never counts: a client that diverged must not spoil the model of the others."""

from __future__ import annotations

from dataclasses import replace

import torch

from fedloom.core.kept_rows import KeptRows
from fedloom.rounds.answers import Answers
from fedloom.rounds.exchange.station import Station
from fedloom.rounds.jobs import KEPT, REPLY
from fedloom.rounds.round_context import RoundContext


class Finiteness(Station):
    """Leaves out clients who sent or kept NaN or infinity."""

    back = "leaves out answers that are not finite"

    def take_back(self, answers: Answers, round: RoundContext) -> Answers:
        """The answers that are finite."""
        return answers.without_broken(not_finite(answers))


class Forgetting(Station):
    """Lets clients who diverged keep what they had before; their replies stay, and nobody is named.

    That is for rounds whose aggregator takes a row that is not finite as no change: who diverged is then nobody's
    business.
    """

    back = "has clients who diverged keep what they had, without naming them"

    def take_back(self, answers: Answers, round: RoundContext) -> Answers:
        """The same replies."""
        diverged = set(not_finite(answers))
        if not diverged:
            return answers
        cohorts = []
        for job, answer in answers.cohorts:
            usable = torch.tensor([place not in diverged for place in job.places])
            before, kept = round.state.client_states.read(job.ids), {}
            for name, new in answer.kept.items():
                kept[name] = new.where(usable, before.get(name) or KeptRows.of_nobody(new.rows))
            cohorts.append((job, replace(answer, kept=kept)))
        return replace(answers, cohorts=tuple(cohorts))


def not_finite(answers: Answers) -> dict[int, str]:
    """Why the answers of some clients do not count, by their places.

    Args:
        answers: The answers, as they were sent.
    """
    found: dict[int, str] = {}
    for job, answer in answers.cohorts:
        named = {f"{REPLY}{name}": tensor for name, tensor in answer.reply.items()}
        named |= {f"{KEPT}{name}": kept.rows for name, kept in answer.kept.items()}
        for name, tensor in (named | answer.measured).items():
            # A sum is finite only if every number is: one pass, and the exact look only where something is wrong.
            if not tensor.is_floating_point() or bool(torch.isfinite(tensor.sum())):
                continue
            # A measurement may be NaN: that of a client without test samples is.
            wrong = tensor.isinf() if name in answer.measured else ~tensor.isfinite()
            for row in wrong.reshape(len(tensor), -1).any(1).nonzero().flatten().tolist():
                found.setdefault(job.places[row], f"{name} has numbers that are not finite")
    return found
