"""The aggregator: how the rows of many clients become one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from fedloom.core.aggregation_context import AggregationContext
from fedloom.core.settings import check_settings

if TYPE_CHECKING:
    from fedloom.core.algorithm import Algorithm
    from fedloom.core.task import Task


@dataclass(frozen=True)
class Aggregator:
    """Makes one row of many; every method that takes ``replies.mean`` uses it. Its settings are its fields."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def least_clients(self) -> int:
        """The fewest clients in a round with which it can do what it promises."""
        return 1

    def check(self, algorithm: Algorithm, task: Task) -> None:
        """Raise a ``FedloomError`` for a method or a task that this aggregator cannot serve, before any work is done.

        Args:
            algorithm: The method of the run.
        """

    def __call__(self, rows: Tensor, weights: Tensor, context: AggregationContext) -> Tensor:
        """The row that stands for all of them.

        Args:
            rows: A row per client, in client order.
            weights: The run's weights of these clients; they sum to one.
            context: What the server has in this round, whose rows these are, what they started from, and what this
                aggregator remembers.
        """
        raise TypeError(f"{type(self).__name__} has no __call__")
