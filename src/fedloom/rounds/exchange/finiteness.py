"""What is not a number never counts: a client that diverged must not spoil the model of the others."""

from __future__ import annotations

import torch

from fedloom.rounds.answers import Answers
from fedloom.rounds.exchange.station import Station
from fedloom.rounds.jobs import KEPT, REPLY
from fedloom.rounds.round_context import RoundContext


class Finiteness(Station):
    """Leaves out clients who sent or kept NaN or infinity."""

    back = "leaves out answers that are not finite"

    def take_back(self, answers: Answers, round: RoundContext) -> Answers:
        """The answers that are finite."""
        return answers.without(not_finite(answers))


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
