"""The station of the run's screen (``rounds/screen.py``): what it refuses is left out, what it clips counts less."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.rounds.answers import Answers
from fedloom.rounds.exchange.station import Station
from fedloom.rounds.round_context import RoundContext
from fedloom.rounds.screen import Screen, clip_changes


class ReplyScreening(Station):
    """Lets the run's screen judge the replies: some are left out, some count with a smaller change."""

    back = "leaves out, or clips, replies whose numbers cannot be right"

    def __init__(self, screen: Screen) -> None:
        self.screen = screen

    def take_back(self, answers: Answers, round: RoundContext) -> Answers:
        """The answers that may be used, as far as they may."""
        algorithm, wave, names = round.run.algorithm, answers.wave, round.run.task.federation
        verdict = self.screen.judge(algorithm, wave, answers.reply, answers.influence, round.state.norms)
        refused = {**unusable(algorithm, answers.reply), **verdict.refused}
        for place, reason in verdict.clipped.items():
            if place not in refused:  # a reply that is left out is reported as that, and not as clipped too
                round.engine.remark(wave.ids[place], names.name(wave.ids[place]), "clipped", reason)
        round.costs.norms.append(verdict.norms)
        # Scales are by place in the whole wave, and are applied to the answers that are left.
        left = torch.tensor([place for place in range(len(wave.ids)) if place not in refused], dtype=torch.int64)
        answers = answers.without(refused)
        if not verdict.scales:
            return answers
        scales = {name: scale[left] for name, scale in verdict.scales.items()}
        return replace(answers, decoded=clip_changes(algorithm, answers.wave, answers.reply, scales))


def unusable(algorithm: Algorithm, reply: Mapping[str, Tensor]) -> dict[int, str]:
    """Why a method cannot use the replies of some clients, by their places: what it declares of its tensors decides.

    Args:
        algorithm: The method.
        reply: The replies, decoded.
    """
    found: dict[int, str] = {}
    for name, tensor in reply.items():
        refuse = algorithm.sends[name].refuse if name in algorithm.sends else None
        found |= {} if refuse is None else refuse(tensor)
    return found
