"""Server optimisers: what the server does with the mean of a round.

A server optimiser treats the change of the shared row as a gradient (Reddi et al., Adaptive Federated Optimization,
ICLR 2021): FedAvg is the one that takes the change as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm, ServerStep
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts, holds
from fedloom.core.schedules import RoundSchedule
from fedloom.core.settings import Positive, ShareBelowOne, check_settings
from fedloom.core.task import Task

SERVERS = {"sgd": (1.0, 0.0), "adagrad": (0.1, 0.0), "adam": (0.01, 0.9), "yogi": (0.01, 0.9)}
"""The default learning rate and momentum of each kind of server optimiser."""


@dataclass(frozen=True)
class ServerOptimizer(RoundSchedule):
    """``row + step``, where the step comes from the round's change and from earlier ones.

    sgd: ``m = momentum * m + change; row + lr * m`` (momentum > 0 is FedAvgM). adagrad, adam, yogi: Algorithm 2 of the
    paper, which has no bias correction and starts its second moment at ``tau ** 2``.

    Args:
        kind: The optimiser.
        lr: Learning rate of the server; None is the kind's own default (``SERVERS``).
        momentum: Momentum of sgd, beta1 of adam and yogi; None is the kind's own default.
        beta2: Decay of the second moment.
        tau: Added to the denominator; the smaller, the more adaptive.
        schedule: How the learning rate changes over rounds, as that of clients (``local.schedule``).
        lr_decay: The factor of the schedule.
        lr_every: Rounds between two steps of the schedule ``step``.
        warmup: Rounds in which the learning rate rises in equal steps, before the schedule begins.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    needs: ClassVar[Facts] = {
        Fact.MEAN_EVERY_ROUND: "steps after every mean of models: drop the optimiser",
        Fact.ONE_MEAN: "steps after one mean of all models: drop server_optimizer",
        Fact.SHARED_MODEL: "steps with the model that clients share: drop server_optimizer",
        Fact.ONE_OPTIMIZER: "takes the only step of a round: drop server_optimizer, or use fedavg with it",
    }

    kind: Literal["sgd", "adagrad", "adam", "yogi"] = "sgd"
    lr: Positive | None = None
    momentum: ShareBelowOne | None = None
    beta2: ShareBelowOne = 0.99
    tau: Positive = 1e-3

    def __post_init__(self) -> None:
        check_settings(self, "server_optimizer")
        self.check_schedule("server_optimizer")
        if self.has_own_steps:
            raise FedloomError(
                f"server_optimizer.schedule={self.schedule}: the server makes one step per round, so its schedule may "
                "only take round and rounds."
            )
        lr, momentum = SERVERS[self.kind]
        object.__setattr__(self, "lr", lr if self.lr is None else self.lr)
        object.__setattr__(self, "momentum", momentum if self.momentum is None else self.momentum)

    @property
    def rate(self) -> float:
        """The server's learning rate."""
        return SERVERS[self.kind][0] if self.lr is None else self.lr

    @property
    def inertia(self) -> float:
        """The share of the last step that stays: momentum of sgd, beta1 of adam and yogi."""
        return SERVERS[self.kind][1] if self.momentum is None else self.momentum

    def at(self, round_number: int, rounds: int) -> ServerStep:
        """The step of a round, with its learning rate.

        Args:
            round_number: The round, counted from 1.
            rounds: How many rounds the run has.
        """
        return partial(self.step, self.rate * self.factor_at(round_number, rounds))

    def check(self, algorithm: Algorithm, task: Task) -> None:
        """Refuse a method without a shared model, or whose shared model no client gets."""
        own = not holds(Fact.SHARED_PREDICTION, algorithm) and "row" not in algorithm.receives
        if own or "row" not in algorithm.start(task):
            name = type(algorithm).__name__.lower()
            raise FedloomError(
                f"{name} has no shared model that a server optimiser could update: drop server_optimizer."
            )

    def __call__(self, row: Tensor, mean: Tensor, state: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """The new row and the new state, at the constant learning rate."""
        return self.step(self.rate, row, mean, state)

    def step(
        self, rate: float, row: Tensor, mean: Tensor, state: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The new row and the new state.

        Args:
            rate: The learning rate of the round.
            row: The model of the last round.
            mean: The mean of the clients' models.
            state: What the optimiser remembers.
        """
        change = mean - row
        if self.kind == "sgd":
            moment = self.inertia * state.get("m", torch.zeros_like(row)) + change
            return row + rate * moment, {"m": moment} if self.inertia else {}
        moment = self.inertia * state.get("m", torch.zeros_like(row)) + (1 - self.inertia) * change
        second, square = state.get("v", torch.full_like(row, self.tau**2)), change.square()
        if self.kind == "adagrad":
            second = second + square
        elif self.kind == "adam":
            second = self.beta2 * second + (1 - self.beta2) * square
        else:
            second = second - (1 - self.beta2) * square * torch.sign(second - square)
        return row + rate * moment / (second.sqrt() + self.tau), {"m": moment, "v": second}
