"""An attack: some clients, or the server, play another role.

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

A hostile server is an ``Attack``; who the hostile clients are is what an ``Adversary`` adds (``core/adversary.py``).
All of it is keyed by the run's seed, so that a run with an attack is as reproducible as one without.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.facts import ATTACK_PROMISES, Fact, Facts, Promises
from fedloom.core.inherited_arguments import with_inherited_arguments
from fedloom.core.message import Message, Replies, Wave
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import check_settings
from fedloom.core.task import Task

DATA_HOOKS = ("poison_samples", "poison_task")
AGREEMENT_HOOKS = ("collude", "collude_against")
CLIENT_HOOKS = (*DATA_HOOKS, "poison_update", *AGREEMENT_HOOKS, "look_at_message")
"""What only hostile clients do."""
SERVER_HOOKS = ("poison_message", "look_at_replies")


@dataclass(frozen=True)
class Attack:
    """The base class of attacks without hostile clients: those of the server. Its settings are its fields."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012
    _promises: ClassVar[Promises] = ATTACK_PROMISES

    needs: ClassVar[Facts] = {}
    """What the attack needs of other parts, and why."""
    breaks: ClassVar[Facts] = {}
    """What other parts cannot rely on, and why."""
    grants: ClassVar[Collection[Fact]] = tuple(ATTACK_PROMISES)  # of an attack that does nothing
    """Promises about the attack's code: ``Fact.SAME_START`` if ``poison_message`` sends the same to all clients, and
    ``Fact.ONLY_SUMS`` if it makes do with the mean of all replies. A subclass with such a function makes them again."""
    least_colluders: ClassVar[int] = 1
    """The fewest hostile clients of a wave with whom ``collude`` does anything."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__doc__ = with_inherited_arguments(cls)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.clients_are_hostile and type(self).members is Attack.members:
            raise FedloomError(
                f"{type(self).__name__} acts by hostile clients, and an fl.Attack has none: subclass fl.Adversary."
            )

    @property
    def first_round(self) -> int:
        """The first round of the attack."""
        return 1

    @property
    def lasts(self) -> bool:
        """Whether it goes on in all rounds."""
        return True

    def acts_in(self, round_number: int) -> bool:
        """Whether the attack goes on in a round.

        Args:
            round_number: The round, counted from 1; 0 is what a method does before.
        """
        return True

    @property
    def acts_on_data(self) -> bool:
        """Whether it changes what hostile clients train on."""
        return self._overrides(DATA_HOOKS)

    @property
    def clients_are_hostile(self) -> bool:
        """Whether its clients, and not only the server, do something."""
        return self._overrides(CLIENT_HOOKS)

    @property
    def clients_collude(self) -> bool:
        """Whether hostile clients agree on what they send."""
        return self._overrides(AGREEMENT_HOOKS)

    @property
    def server_is_hostile(self) -> bool:
        """Whether the server, and not only its clients, sends or looks at something."""
        return self._overrides(SERVER_HOOKS)

    def _overrides(self, hooks: Sequence[str]) -> bool:
        return any(getattr(type(self), hook) is not getattr(Attack, hook) for hook in hooks)

    def _derived_facts(self) -> tuple[Facts, Facts]:
        """An attack that looks at replies, agrees on them, or changes messages needs a server that reads models."""
        why = "looks at models, or changes them, at the server: leave out one of the two"
        alone = (
            "changes samples one by one, and nodes of a graph are not: use an attack on updates, such as signflipping"
        )
        changes_samples = self._overrides(("poison_samples",))
        reads = self.server_is_hostile or self.clients_collude
        return ({Fact.READABLE: why} if reads else {}), ({Fact.GRAPHS: alone} if changes_samples else {})

    @property
    def draws_from_formed_groups(self) -> bool:
        """Whether its hostile clients are whole groups that the method forms."""
        return False

    @property
    def waits_for_groups(self) -> bool:
        """Whether its hostile clients are drawn from groups that the method still has to form."""
        return False

    def members(self, participants: Sequence[int], seed: int) -> frozenset[int]:
        """The hostile clients among those who may take part; nobody before groups are formed that they are drawn from.

        Args:
            participants: The clients who may take part in training.
        """
        return frozenset()

    def members_of(self, groups: Sequence[Sequence[int]], seed: int) -> frozenset[int]:
        """The members of the groups that turn hostile.

        Args:
            groups: The clients of each group.
        """
        return frozenset()

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
