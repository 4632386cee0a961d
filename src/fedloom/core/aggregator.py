"""The aggregator: how the rows of many clients become one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from fedloom.core.aggregation_context import AggregationContext
from fedloom.core.facts import AGGREGATOR_PROMISES, Fact, Facts, Promises
from fedloom.core.settings import check_settings

if TYPE_CHECKING:
    from fedloom.core.algorithm import Algorithm
    from fedloom.core.privacy import PlannedRun, Privacy
    from fedloom.core.task import Task


@dataclass(frozen=True)
class Aggregator:
    """Makes one row of many; every method that takes ``replies.mean`` uses it. Its settings are its fields."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012
    _promises: ClassVar[Promises] = AGGREGATOR_PROMISES

    needs: ClassVar[Facts] = {}
    """What the aggregator needs of other parts, and why."""
    breaks: ClassVar[Facts] = {}
    """What other parts cannot rely on, and why."""
    grants: ClassVar[Collection[Fact]] = ()
    """``(Fact.ONLY_SUMS,)`` if the weighted sum of the rows is all that ``__call__`` uses."""

    def __post_init__(self) -> None:
        check_settings(self)

    def _derived_facts(self) -> tuple[Facts, Facts]:
        """Any aggregator but a mean needs rows of which one is made."""
        author = next(kind for kind in type(self).__mro__ if "__call__" in vars(kind))
        why = "makes one update of those of all clients: leave it out"
        return ({} if "grants" in vars(author) else {Fact.EXCHANGES: why, Fact.ONE_MEAN: why}), {}

    @property
    def least_clients(self) -> int:
        """The fewest clients in a round with which it can do what it promises."""
        return 1

    def ledger(self, plan: PlannedRun) -> Privacy | None:
        """The ledger of what clients spend of their privacy, if the aggregator adds noise; None for most.

        A ``FedloomError`` says that the settings protect nobody.

        Args:
            plan: The run as far as it is known before it starts.
        """
        return None

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
