"""A server that reads, from what it sent and what it got, which samples its clients have.

What it reads is one client's update, or, where clients send it only a sum, the mean of their updates: then the sum's
leak is what is rebuilt, and nobody can say whose sample it is. The attack on single clients (``victims``) is refused
beside a sum.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import MinLen
from torch import Tensor

from fedloom.attacks.reconstruction.gradients import inputs_of
from fedloom.attacks.reconstruction.labels import labels_found
from fedloom.attacks.reconstruction.rebuilt import Rebuilt, column_spread, judge_rebuilt, summary, value_range
from fedloom.attacks.seen_updates import Seen, seen_updates
from fedloom.core.algorithm import Algorithm
from fedloom.core.attack import Attack
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.message import Replies, Wave
from fedloom.core.settings import Count, WholeNumber
from fedloom.core.task import Task

log = logging.getLogger("fedloom")


@dataclass(frozen=True)
class Found:
    """What an attacker concludes.

    Args:
        inputs: The samples that it believes in, in any order.
        labels: How many samples of each class it believes in; None if it does not ask.
        sought: The only class whose samples it is after; None for all.
    """

    inputs: Tensor
    labels: Tensor | None = None
    sought: int | None = None


@dataclass(frozen=True)
class ServerAttack(Attack):
    """The base class of servers that rebuild samples: ``rebuild`` is what they conclude from one update.

    Args:
        victims: The numbers of the clients that the server reads; by default the first ones that answer, up to
            ``most``.
        most: How many clients it reads at most.
        at_round: The round in which it attacks, counted from 1.
    """

    needs: ClassVar[Facts] = {
        Fact.EXCHANGES: "reads what clients send: choose another method",
        Fact.UPDATES: "reads models that clients trained, or their changes: choose another method",
        Fact.MODEL_DOWN: "compares what clients send with the model that they got: choose another method",
    }

    victims: Annotated[list[WholeNumber], MinLen(1)] | None = None
    most: Count = 5
    at_round: Count = 1

    @property
    def first_round(self) -> int:
        return self.at_round

    @property
    def grants(self) -> Collection[Fact]:  # type: ignore[override]
        """Of a sum it reads the sum, unless it is after single clients; it sends the same to all."""
        return (Fact.SAME_START,) if self.victims is not None else (Fact.SAME_START, Fact.ONLY_SUMS)

    @property
    def breaks(self) -> Facts:  # type: ignore[override]
        """What other parts cannot rely on, and why."""
        found = {Fact.GRAPHS: "reads samples that stand alone, and no nodes: leave out one of the two"}
        if self.victims is not None:
            found[Fact.ONLY_SUMS] = "reads the updates of single clients: leave out victims, and it reads the sum"
        return found

    def check(self, algorithm: Algorithm, task: Task) -> None:
        """Refuse what it cannot read, and whose samples are not here to compare with."""
        name = type(self).__name__.lower()
        if task.has_named_inputs or not inputs_of(task, task.sample).is_floating_point():
            raise FedloomError(f"{name} rebuilds images or rows of numbers, and task {task.name} has other samples.")
        strange = [client for client in self.victims or () if client >= task.federation.clients]
        if strange:
            raise FedloomError(f"{name}: victims: there is no client {strange[0]} to read.")

    def rebuild(self, seen: Seen) -> Found:
        """What the server concludes from one update.

        Args:
            seen: What it sees.
        """
        raise TypeError(f"{type(self).__name__} has no rebuild")

    def leaks(self, wave: Wave, replies: Replies) -> list[Rebuilt]:
        """What the server rebuilds in a round, beside the samples themselves.

        Args:
            wave: What was sent.
            replies: What came back.
        """
        if replies.context.round != self.at_round:
            return []
        return [self._judge(seen, self.rebuild(seen)) for seen in self._seen(wave, replies)]

    def look_at_replies(self, wave: Wave, replies: Replies) -> Mapping[str, float]:
        """How much of its clients' samples the server rebuilt: numbers only."""
        return summary(self.leaks(wave, replies))

    def _seen(self, wave: Wave, replies: Replies) -> Iterator[Seen]:
        """Whose changes it reads: those of some clients, or one for a sum of all."""
        wanted = wave.ids[: self.most] if self.victims is None else self.victims[: self.most]
        for seen in seen_updates(wave, replies):
            if seen.of_sum:
                log.warning(
                    "%s sees the sum of %s clients and no update of any of them: what it rebuilds is what the sum "
                    "leaks",
                    type(self).__name__.lower(),
                    len(wave.ids),
                )
            if seen.of_sum or seen.clients[0] in wanted:
                yield seen

    def _judge(self, seen: Seen, found: Found) -> Rebuilt:
        """What was rebuilt, beside the samples that were sought."""
        task = seen.task
        positions = torch.cat([task.federation.train[client] for client in seen.clients])
        told = None if found.labels is None else labels_found(found.labels, task.targets(positions))
        sought = positions if found.sought is None else positions[task.targets(positions) == found.sought]
        low, high = value_range(task)
        originals = inputs_of(task, sought)
        guesses = found.inputs.nan_to_num().clamp(low, high)  # an attacker knows the range of pixels
        return judge_rebuilt(guesses, originals, high - low, seen.clients, len(positions), told, column_spread(task))
