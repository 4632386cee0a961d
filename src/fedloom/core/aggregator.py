"""The aggregator: how the rows of many clients become one."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedloom.core.server_context import ServerContext


@dataclass(frozen=True)
class Aggregator:
    """Makes one row of many; every method that takes ``replies.mean`` uses it. Its settings are its fields."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    @property
    def least_clients(self) -> int:
        """The fewest clients in a round with which it can do what it promises."""
        return 1

    def __call__(self, rows: Tensor, weights: Tensor, context: ServerContext) -> Tensor:
        """The row that stands for all of them.

        Args:
            rows: A row per client, in client order.
            weights: The run's weights of these clients; they sum to one.
            context: What the server has in this round.
        """
        raise TypeError(f"{type(self).__name__} has no __call__")
