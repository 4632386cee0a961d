"""The local learning rate over rounds."""

from __future__ import annotations

import math
from typing import Literal

Schedule = Literal["constant", "step", "exponential", "cosine"]


def lr_at(schedule: Schedule, lr: float, decay: float, every: int, round_number: int, rounds: int) -> float:
    """The learning rate of a round.

    Args:
        schedule: ``constant``; ``step`` multiplies the rate by ``decay`` every ``every`` rounds; ``exponential`` does
            so every round; ``cosine`` falls to ``decay`` times the rate at the last round.
        lr: The learning rate of the first round.
        decay: The factor of the schedule.
        every: The number of rounds between two factors of ``step``.
        round_number: The round, counted from 1; what comes before round 1 has the rate of round 1.
    """
    done = max(round_number - 1, 0)
    if schedule == "step":
        return lr * float(decay ** (done // every))
    if schedule == "exponential":
        return lr * float(decay**done)
    if schedule == "cosine":
        share = done / max(rounds - 1, 1)
        return lr * (decay + (1 - decay) * (1 + math.cos(math.pi * share)) / 2)
    return lr
