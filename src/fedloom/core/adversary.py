"""The adversary: some clients, or the server, play another role.

An attack overrides what it needs:

================  =======================================  ===================================
who               acts on                                  looks at
================  =======================================  ===================================
hostile clients   their samples: ``poison_samples``        what they get: ``look_at_message``
                  their reply: ``poison_update``
                  their replies, as one: ``collude``,    what others sent: ``collude_against``
the server        what it sends: ``poison_message``        what it gets: ``look_at_replies``
everybody                                                  the model of a scored round: ``measure``
================  =======================================  ===================================

All of it is keyed by the run's seed, so that a run with an adversary is as reproducible as one without.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from annotated_types import MinLen
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.facts import ADVERSARY_PROMISES, Fact, Facts, Promises
from fedloom.core.message import Message, Replies, Wave
from fedloom.core.seeds import numpy_generator
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import Count, Share, WholeNumber, check_settings
from fedloom.core.task import Task

FORMED = "formed"
"""Says of ``groups`` that they are those that the method forms."""


@dataclass(frozen=True)
class Adversary:
    """The base class of attacks: its hostile clients, or server, behave like others. Its settings are its fields.

    Args:
        clients: The numbers of the hostile clients; by default they are drawn by the run's seed.
        fraction: The share of hostile clients if ``clients`` does not name them, rounded up; with 0 nobody is.
        groups: Groups of clients who turn hostile together, such as FedSeq's given ``chains``, or ``formed``: those
            that the method forms itself before round 1. ``fraction`` is then the share of hostile groups.
        start: The first round of the attack.
        stop: Its last round; by default the run's. With ``stop = start`` it is one shot.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012
    _promises: ClassVar[Promises] = ADVERSARY_PROMISES

    needs: ClassVar[Facts] = {}
    """What the attack needs of other parts, and why."""
    breaks: ClassVar[Facts] = {}
    """What other parts cannot rely on, and why."""
    grants: ClassVar[Collection[Fact]] = tuple(ADVERSARY_PROMISES)  # of an attack that does nothing
    """Promises about the attack's code: ``Fact.SAME_START`` if ``poison_message`` sends the same to all clients."""
    least_colluders: ClassVar[int] = 1
    """The fewest hostile clients of a wave with whom ``collude`` does anything."""

    clients: Annotated[list[WholeNumber], MinLen(1)] | None = None
    fraction: Share = 0.2
    groups: Annotated[list[list[WholeNumber]], MinLen(1)] | Literal["formed"] | None = field(default=None, kw_only=True)
    start: Count = field(default=1, kw_only=True)
    stop: Count | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_settings(self)
        name = type(self).__name__.lower()
        if self.stop is not None and self.stop < self.start:
            raise FedloomError(f"{name}: stop={self.stop}: the attack starts in round {self.start}, stop it later.")
        if self.groups is not None and self.clients is not None:
            raise FedloomError(f"{name}: clients and groups both say who is hostile: leave one of them out.")

    @property
    def acts_on_data(self) -> bool:
        """Whether it changes what hostile clients train on."""
        kind = type(self)
        hooks = ("poison_samples", "poison_task")
        return any(getattr(kind, hook) is not getattr(Adversary, hook) for hook in hooks)

    def acts_in(self, round_number: int) -> bool:
        """Whether the attack goes on in a round.

        Args:
            round_number: The round, counted from 1; 0 is what a method does before.
        """
        return self.start <= max(round_number, 1) <= (self.stop or math.inf)

    def _derived_facts(self) -> tuple[Facts, Facts]:
        """An attack that looks at replies, agrees on them, or changes messages needs a server that reads models."""
        kind = type(self)
        hooks = ("collude", "collude_against", "look_at_replies", "poison_message")
        reads = any(getattr(kind, hook) is not getattr(Adversary, hook) for hook in hooks)
        why = "looks at models, or changes them, at the server: leave out one of the two"
        alone = (
            "changes samples one by one, and nodes of a graph are not: use an attack on updates, such as signflipping"
        )
        changes_samples = kind.poison_samples is not Adversary.poison_samples
        return ({Fact.READABLE: why} if reads else {}), ({Fact.GRAPHS: alone} if changes_samples else {})

    @property
    def waits_for_groups(self) -> bool:
        """Whether its hostile clients are drawn from groups that the method still has to form."""
        return self.groups == FORMED and self.fraction > 0

    def members(self, participants: Sequence[int], seed: int) -> frozenset[int]:
        """The hostile clients among those who may take part; nobody before groups are formed that they are drawn from.

        Args:
            participants: The clients who may take part in training.
        """
        if self.clients is not None:
            there = set(participants)
            strange = [client for client in self.clients if client not in there]
            if strange:
                raise FedloomError(f"adversary: no client {strange[0]} takes part in training: name other clients.")
            return frozenset(self.clients)
        if isinstance(self.groups, str):
            return frozenset()
        if self.groups is not None:
            there = {client for group in self.groups for client in group}
            strange = sorted(there.difference(participants))
            if strange:
                raise FedloomError(f"adversary: no client {strange[0]} takes part in training: name others in groups.")
            return self.members_of(self.groups, seed)
        number = math.ceil(self.fraction * len(participants) - 1e-9)
        drawn = numpy_generator(seed, "adversary").choice(len(participants), number, replace=False)
        return frozenset(int(participants[place]) for place in drawn)

    def members_of(self, groups: Sequence[Sequence[int]], seed: int) -> frozenset[int]:
        """The members of the groups that turn hostile.

        Args:
            groups: The clients of each group.
        """
        number = math.ceil(self.fraction * len(groups) - 1e-9)
        drawn = numpy_generator(seed, "adversary").choice(len(groups), number, replace=False)
        return frozenset(client for place in drawn for client in groups[place])

    def check(self, algorithm: Algorithm, task: Task) -> None:
        """Raise a ``FedloomError`` for a method or a task that this attack cannot act on, before any work is done.

        Args:
            algorithm: The method of the run.
        """

    def poison_samples(self, samples: Mapping[str, Tensor], client: int, task: Task, seed: int) -> Mapping[str, Tensor]:
        """The training samples of a hostile client as it trains on them while the attack goes on.

        Test and validation parts stay as they are, and so do the samples of others, also where they are the same.

        Args:
            samples: Its samples: the rows of each column of the federation, before ``task.prepare``.
            task: The task as honest clients have it.

        Returns:
            As many samples, in the same order and of the same types; columns that do not change may be left out.
        """
        return {}

    def poison_task(self, task: Task, hostile: frozenset[int], seed: int) -> Task:
        """The task with anything of it changed, in all rounds; ``poison_samples`` is enough for most attacks.

        Args:
            hostile: The hostile clients.
        """
        return task

    def poison_update(self, name: str, changes: Tensor, cohort: Cohort, hostile: Tensor) -> Tensor:
        """The changes that clients reply with; only the rows of hostile clients are used.

        Args:
            name: The name of the reply's tensor.
            changes: The change of each client of the cohort: its difference to what it received.
            cohort: The clients.
            hostile: A mask of the hostile ones.
        """
        return changes

    def collude(self, name: str, changes: Tensor, clients: int) -> Tensor:
        """The changes that the hostile clients of a wave agree on, after each has made its own.

        They act on what the server decodes, whatever steps the channel has: an upper bound of what they can do there.

        Args:
            name: The name of the reply's tensor.
            changes: The change of each hostile client that answered, in the order of the wave.
            clients: How many clients answered in all.
        """
        return changes

    def collude_against(self, name: str, changes: Tensor, others: Tensor) -> Tensor:
        """The same for hostile clients who know what the others of the wave sent; by default they know only their own.

        Args:
            name: The name of the reply's tensor.
            changes: The change of each hostile client that answered, in the order of the wave.
            others: The change of each other client that answered.
        """
        return self.collude(name, changes, len(changes) + len(others))

    def look_at_message(self, message: Message, cohort: Cohort, hostile: Tensor) -> None:
        """Let hostile clients see what they got.

        What they conclude they keep for ``poison_update``: ``cohort.keep(name, rows, only=hostile)``.

        Args:
            message: What the clients of the cohort got, before any of them replies.
            cohort: The clients.
            hostile: A mask of the hostile ones.
        """

    def poison_message(self, wave: Wave, context: ServerContext) -> Message:
        """The message that the server sends instead of the method's. Models are still evaluated without it.

        Args:
            wave: What would be sent, and to whom.
            context: What the server has in this round.
        """
        return wave.message

    def look_at_replies(self, wave: Wave, replies: Replies) -> Mapping[str, float]:
        """See what the server sent and got, as it sees them: after the channel.

        What it returns is recorded with the metrics of the round, as ``adversary/NAME``; a number that is not finite is
        left out.

        Args:
            wave: What was sent, to the clients that answered.
            replies: What they answered.
        """
        return {}

    def measure(self, row: Tensor, context: ServerContext, hostile: frozenset[int]) -> Mapping[str, float]:
        """How far the attack got with the shared model of a scored round, on samples that no client trains on.

        What it returns is recorded as ``adversary/NAME``.

        Args:
            row: The model.
            context: What the server has in this round.
            hostile: The hostile clients.
        """
        return {}
