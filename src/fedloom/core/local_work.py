"""Local work: what a client does between receiving a model and answering.

Epochs or steps, batch size, optimiser, learning rate and its schedule over rounds, clipping, and which share of
clients only manages part of its work in a round (Li et al., FedProx, MLSys 2020, section 5.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from fedloom.core.errors import FedloomError
from fedloom.core.lr_schedule import Schedule, lr_at


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

    epochs: int = 1
    steps: int | None = None
    batch_size: int = 32
    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: float = 0.1
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    clip: float | None = None
    schedule: Schedule = "constant"
    lr_decay: float = 1.0
    lr_every: int = 1
    partial: float = 0.0

    def __post_init__(self) -> None:
        positive = {"lr": self.lr, "epsilon": self.epsilon, "lr_every": self.lr_every, "lr_decay": self.lr_decay}
        for name, value in positive.items():
            if not value > 0 or not math.isfinite(value):
                raise FedloomError(f"{name}={value}: it must be a positive number.")
        whole = {"epochs": self.epochs, "batch_size": self.batch_size}
        for name, number in whole.items():
            if number < 0:
                raise FedloomError(f"{name}={number}: it must not be negative.")
        if self.steps is not None and self.steps < 0:
            raise FedloomError(f"steps={self.steps}: it must not be negative.")
        if self.weight_decay < 0:
            raise FedloomError(f"weight_decay={self.weight_decay}: it must not be negative.")
        for name, share in {"momentum": self.momentum, "beta1": self.beta1, "beta2": self.beta2}.items():
            if not 0 <= share < 1:
                raise FedloomError(f"{name}={share}: it must be at least 0 and less than 1.")
        if self.nesterov and self.momentum == 0:
            raise FedloomError("nesterov=true needs a momentum above 0.")
        if self.clip is not None and not self.clip > 0:
            raise FedloomError(f"clip={self.clip}: the bound on a gradient's norm must be positive.")
        if not 0 <= self.partial <= 1:
            raise FedloomError(f"partial={self.partial}: the share of clients with partial work is between 0 and 1.")

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
