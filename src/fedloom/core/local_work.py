"""Local work: what a client does between receiving a model and answering.

Epochs or steps, batch size, optimiser, learning rate and its schedule over rounds, clipping, and which share of
clients only manages part of its work in a round (Li et al., FedProx, MLSys 2020, section 5.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from fedloom.core.errors import FedloomError
from fedloom.core.settings import Count, NonNegative, Positive, Share, ShareBelowOne, WholeNumber, check_settings


@dataclass(frozen=True)
class LocalWork:
    """How a client trains.

    Schedules over rounds: ``constant``; ``step`` multiplies the learning rate by ``lr_decay`` every ``lr_every``
    rounds; ``exponential`` does so every round; ``cosine`` falls to ``lr_decay`` of it at the last round.

    Args:
        epochs: Passes over the client's training data per round.
        steps: Gradient steps per round, instead of ``epochs``.
        batch_size: Samples per step; 0 takes all of the client's samples at once.
        optimizer: The local optimiser.
        lr: The learning rate.
        momentum: Momentum of SGD.
        nesterov: Whether SGD uses Nesterov's momentum.
        weight_decay: The L2 penalty on the weights.
        beta1: Decay of Adam's first moment.
        beta2: Decay of Adam's second moment.
        epsilon: Added to Adam's denominator.
        clip: Bound on the norm of a client's gradient; None sets no bound.
        schedule: How the learning rate changes over rounds.
        lr_decay: The factor of the schedule.
        lr_every: Rounds between two steps of the schedule ``step``.
        partial: The share of clients that do only part of their work in a round.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    epochs: WholeNumber = 1
    steps: WholeNumber | None = None
    batch_size: WholeNumber = 32
    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: Positive = 0.1
    momentum: ShareBelowOne = 0.0
    nesterov: bool = False
    weight_decay: NonNegative = 0.0
    beta1: ShareBelowOne = 0.9
    beta2: ShareBelowOne = 0.999
    epsilon: Positive = 1e-8
    clip: Positive | None = None
    schedule: Schedule = "constant"
    lr_decay: Positive = 1.0
    lr_every: Count = 1
    partial: Share = 0.0

    def __post_init__(self) -> None:
        check_settings(self, "local")
        if self.nesterov and self.momentum == 0:
            raise FedloomError("nesterov=true needs a momentum above 0.")

    def for_epochs(self, epochs: int | None) -> LocalWork:
        """The same work for a number of epochs; None leaves it as it is."""
        return self if epochs is None else replace(self, epochs=epochs, steps=None)

    @property
    def is_plain_sgd(self) -> bool:
        """Whether a local step is ``w - lr * gradient``: SGD without momentum."""
        return self.optimizer == "sgd" and self.momentum == 0

    def lr_at(self, round_number: int, rounds: int) -> float:
        """The learning rate of a round, counted from 1."""
        return lr_at(self.schedule, self.lr, self.lr_decay, self.lr_every, round_number, rounds)

    def batches_per_epoch(self, samples: int) -> int:
        """How many batches an epoch over ``samples`` samples has, the partial last one included."""
        return 1 if self.batch_size == 0 else math.ceil(samples / self.batch_size)

    def steps_for(self, samples: int) -> int:
        """How many gradient steps a client with ``samples`` samples makes when it does all of its work."""
        return self.steps if self.steps is not None else self.epochs * self.batches_per_epoch(samples)


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
