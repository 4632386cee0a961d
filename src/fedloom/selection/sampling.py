"""What several selectors share: the number of clients per round, and drawing by weight."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.selector import Draws
from fedloom.core.settings import Count, PositiveShare, check_settings
from fedloom.core.task import Task


@dataclass(frozen=True)
class PerRound:
    """Base of selectors with a fixed number of clients per round: ``number``, or a ``fraction`` (rounded up)."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    fraction: PositiveShare = 1.0
    number: Count | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        if self.number is not None and self.fraction != 1:
            raise FedloomError(
                f"number={self.number} and fraction={self.fraction} both set the number of clients per round: give one."
            )

    def per_round(self, clients: int) -> int:
        """The number of clients per round, out of ``clients``."""
        if self.number is None:
            return max(1, math.ceil(self.fraction * clients - 1e-9))
        if self.number > clients:
            raise FedloomError(
                f"number={self.number} per round, but there are only {clients} to choose from: choose fewer."
            )
        return self.number

    def draws(self, clients: int) -> Draws:
        """A fixed number of clients in each round."""
        return Draws(number=self.per_round(clients))

    def check(self, clients: int, task: Task, algorithm: Algorithm) -> None:
        """Refuse a run with fewer clients than a round needs."""
        self.per_round(clients)


def draw_by_weight(rng: np.random.Generator, weights: ArrayLike, number: int) -> list[int]:
    """Draw places one after the other, without replacement, with probability proportional to their weights.

    Taking the largest log-weights after adding Gumbel noise is equivalent (Efraimidis and Spirakis, 2006).
    """
    weights = np.asarray(weights, dtype=np.float64)
    with np.errstate(divide="ignore"):  # log(0) = -inf: a weight of 0 comes last
        keys = np.log(weights) + rng.gumbel(size=len(weights))
    return [int(place) for place in np.argsort(-keys, kind="stable")[:number]]
