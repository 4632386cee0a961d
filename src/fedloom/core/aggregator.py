"""The aggregator: how the rows of many clients become one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

from torch import Tensor

from fedloom.core.facts import AGGREGATOR_PROMISES, Fact, Facts, Promises, is_granted
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import check_settings

if TYPE_CHECKING:
    from fedloom.core.algorithm import Algorithm
    from fedloom.core.privacy import PlannedRun, Privacy
    from fedloom.core.task import Task

TOLERATED = "aggregation/tolerated"
"""How many hostile rows the aggregator withstood, in records of rounds in which its settings promise more."""


@dataclass(frozen=True)
class Aggregator:
    """Makes one row of many; every method that takes ``replies.mean`` uses it. Its settings are its fields."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012
    _promises: ClassVar[Promises] = AGGREGATOR_PROMISES

    needs: ClassVar[Facts] = {}
    """What the aggregator needs of other parts, and why."""
    breaks: ClassVar[Facts] = {}
    """What other parts cannot rely on, and why."""
    grants: ClassVar[Collection[Fact]] = (Fact.OWN_INFLUENCE,)  # of a class without ``trust`` and ``mix``
    """``Fact.ONLY_SUMS`` if the weighted sum of the rows is all that ``__call__`` uses; ``Fact.OWN_INFLUENCE`` if the
    ``trust`` in a client, or what it is mixed to, does not depend on what others sent."""

    protects: ClassVar[str] = "a rule of one's own for what clients send"
    """What it protects a model with, for somebody who knows no rule by name; empty where it protects from nobody."""
    alone: ClassVar[str] = ""
    """What a run says where no other aggregator stands behind it: what it does not withstand, and what to do."""

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def name(self) -> str:
        """What users call it."""
        return type(self).__name__.lower()

    @property
    def members(self) -> tuple[Aggregator, ...]:
        """The aggregators that it consists of, each with facts of its own: itself, unless several act in turn."""
        return (self,)

    def _derived_facts(self) -> tuple[Facts, Facts]:
        """Any aggregator but a mean needs rows of which one is made."""
        author = next(kind for kind in type(self).__mro__ if "__call__" in vars(kind))
        why = "makes one update of those of all clients: leave it out"
        return ({} if is_granted(Fact.ONLY_SUMS, author, self) else {Fact.EXCHANGES: why, Fact.ONE_MEAN: why}), {}

    @property
    def least_clients(self) -> int:
        """The fewest clients in a round with which it can do what it promises."""
        return 1

    def planned(self, plan: PlannedRun) -> Self:
        """The aggregator with what follows from the run, such as the noise for its target; most are complete.

        Args:
            plan: The run as far as it is known before it starts.
        """
        return self

    def tolerated(self, clients: int) -> int | None:
        """How many hostile clients it withstands, where its settings promise more; None where it does what they say.

        Args:
            clients: How many clients sent a row.
        """
        return 0 if clients < self.least_clients else None

    def withstands_rest(self, clients: int, gone: int) -> bool:
        """Whether it does what it promises once clients are known to be hostile or broken, and are gone.

        Args:
            clients: How many clients sent something.
            gone: How many of them sent what is no number, and do not count.
        """
        return clients - gone >= self.least_clients

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

    def trust(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """How far each client is trusted, from 0 to 1, by an aggregator that may stand before another.

        The next one gets the rows of clients with any trust, and their weights times it. Most aggregators have no such
        function: they make one row, and can only be the last.

        Args:
            rows: A row per client, in client order.
            context: As in ``__call__``.
        """
        raise TypeError(f"{type(self).__name__} has no trust")

    def mix(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """The rows that the next aggregator gets in the place of clients', by one that may stand before another.

        Most aggregators have no such function: they make one row, and can only be the last.

        Args:
            rows: A row per client, in client order.
            context: As in ``__call__``.
        """
        raise TypeError(f"{type(self).__name__} has no mix")

    def refine(self, row: Tensor, context: AggregationContext) -> Tensor:
        """What becomes of the row that another aggregator made, by one that may stand behind it.

        Most aggregators have no such function: where one row is made already, there is nothing left for them.

        Args:
            row: The row that stands for all clients.
            context: As in ``__call__``.
        """
        raise TypeError(f"{type(self).__name__} has no refine")

    def __call__(self, rows: Tensor, weights: Tensor, context: AggregationContext) -> Tensor:
        """The row that stands for all of them.

        Args:
            rows: A row per client, in client order.
            weights: The run's weights of these clients; they sum to one.
            context: What the server has in this round, whose rows these are, what they started from, and what this
                aggregator remembers.
        """
        raise TypeError(f"{type(self).__name__} has no __call__")


@dataclass(frozen=True)
class AggregationContext(ServerContext):
    """What the server has while it makes one row of many.

    Args:
        trainer: Evaluates rows on the server.
        work: The local work of the run.
        seed: The seed of the run.
        round: The round, counted from 1; 0 is the prelude.
        rounds: How many rounds the run has.
        clients: The clients that may take part, without held-out new clients.
        weigh: The run's weighting.
        trainings: How often the server trained in this round, by purpose.
        trainers: Trains and evaluates rows of each architecture, where clients' models differ.
        counted: How many training samples every client counts with; None for as many as it has.
        receives: What the method's messages are, by name.
        sends: What its replies are, by name.
        ids: The clients that the rows come from; empty where a method combines rows of its own making.
        origin: What these clients started from, one row or a row per client; None where the rows are changes already.
        reply: The name of the reply's tensor; empty for rows of a method's own making.
        expected: How many clients a round has on average; None where that is not known.
        memory: What the aggregator remembered of this reply after the last round, and may change: tensors by name.
        findings: What the record of the round says of the aggregation, by the names of metrics; it may be added to.
    """

    ids: Sequence[int] = ()
    origin: Tensor | None = None
    reply: str = ""
    expected: float | None = None
    memory: MutableMapping[str, Tensor] = field(default_factory=dict)
    findings: MutableMapping[str, float] = field(default_factory=dict)

    def note_tolerated(self, aggregator: Aggregator, clients: int) -> None:
        """Let the record of the round say if an aggregator withstands less than its settings promise.

        Args:
            clients: How many clients sent a row.
        """
        found = aggregator.tolerated(clients)
        if found is not None:
            self.findings[TOLERATED] = min(found, self.findings.get(TOLERATED, found))

    @classmethod
    def of(cls, context: ServerContext, **about_rows: Any) -> AggregationContext:
        """The same for some rows.

        Args:
            context: What the server has in this round.
            about_rows: What is known of the rows, by the names of the other fields.
        """
        # Replies that a test of a method makes by hand may have less of a context.
        known: dict[str, Any] = {one.name: getattr(context, one.name, None) for one in fields(ServerContext)}
        return cls(**known, **about_rows)


@dataclass
class AggregatorMemory:
    """What a run's aggregator remembers between rounds, of each reply apart.

    Args:
        before: What it remembered after the last round, by ``REPLY@NAME``; never changed.
    """

    before: Mapping[str, Tensor] = field(default_factory=dict)
    after: dict[str, dict[str, Tensor]] = field(default_factory=dict)

    def of(self, reply: str) -> MutableMapping[str, Tensor]:
        """What it remembers of a reply, to be read and changed.

        Args:
            reply: The name of the reply's tensor.
        """
        if reply not in self.after:
            prefix = f"{reply}@"
            self.after[reply] = {n.removeprefix(prefix): t for n, t in self.before.items() if n.startswith(prefix)}
        return self.after[reply]

    def tensors(self) -> dict[str, Tensor]:
        """All of it after the round, by ``REPLY@NAME``."""
        found = {name: tensor for name, tensor in self.before.items() if name.split("@")[0] not in self.after}
        return found | {f"{reply}@{name}": t for reply, held in self.after.items() for name, t in held.items()}
