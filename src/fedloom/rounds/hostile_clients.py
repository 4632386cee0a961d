"""The adversary of a run: an attack, and the clients that carry it out."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fedloom.channel.channel import Channel, base_of, change_of
from fedloom.core.algorithm import Algorithm
from fedloom.core.attack import Attack
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, holds
from fedloom.core.message import Message, Replies, Reply, Wave
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task
from fedloom.rounds.record_keys import HOSTILE

log = logging.getLogger("fedloom")


@dataclass(frozen=True)
class HostileClients:
    """An attack and the clients that carry it out."""

    attack: Attack
    members: frozenset[int]
    told: set[str] = field(default_factory=set, compare=False)
    """The warnings that were given: each is given once in a run."""

    def note(self) -> dict[str, list[int]]:
        """What the record of round 0 says of who is hostile."""
        return {HOSTILE: sorted(self.members)} if self.attack.clients_are_hostile else {}

    def poison_task(self, task: Task, seed: int) -> Task:
        """The task as ``poison_task`` of the attack changes it. Too few of them for their attack are refused."""
        self._check_colluders(task)
        poisoned = self.attack.poison_task(task, self.members, seed)
        if not isinstance(poisoned, Task):
            raise FedloomError(f"{self._name}: poison_task must return a task, got {poisoned!r}.")
        if poisoned is not task and not self.attack.lasts:
            raise FedloomError(
                f"{self._name}: poison_task changes the task of all rounds: leave start and stop out, or change the "
                "samples of a client by poison_samples, which keeps to them."
            )
        return poisoned

    def poison_reply(self, algorithm: Algorithm, reply: Reply, message: Message, cohort: Cohort) -> Reply:
        """The reply of a cohort with the updates of its hostile clients changed; the other rows keep their bytes."""
        hostile = torch.tensor([client in self.members for client in cohort.ids])
        if not bool(hostile.any()):
            return reply
        self.attack.look_at_message(message, cohort, hostile)
        if not self.attack.acts_in(cohort.round) or not holds(Fact.UPDATES, algorithm):
            return reply
        tensors = dict(reply.tensors)
        for name in Channel(algorithm).update_names(tensors, message):
            changes = change_of(algorithm, name, message, reply.tensors)
            poisoned = self.attack.poison_update(name, changes, cohort, hostile)
            if poisoned is changes:
                continue
            self._check_changes("poison_update", name, poisoned, changes)
            base = base_of(algorithm, name, message, reply.tensors)
            poisoned = poisoned if base is None else base + poisoned
            tensors[name] = torch.where(hostile[:, None], poisoned, tensors[name])
        return replace(reply, tensors=tensors)

    def collude(
        self, algorithm: Algorithm, wave: Wave, replies: Mapping[str, Tensor], round_number: int
    ) -> dict[str, Tensor]:
        """The replies of a wave, decoded, with what its hostile clients agreed on; other rows keep their bytes."""
        is_hostile = torch.tensor([client in self.members for client in wave.ids])
        places, found = is_hostile.nonzero().flatten(), dict(replies)
        if not len(places) or not holds(Fact.UPDATES, algorithm) or not self.attack.acts_in(round_number):
            return found
        self._warn_of_few(len(places))
        message, own = wave.message.for_clients(places), {name: tensor[places] for name, tensor in replies.items()}
        honest = (~is_hostile).nonzero().flatten()
        theirs, others = wave.message.for_clients(honest), {name: tensor[honest] for name, tensor in replies.items()}
        for name in Channel(algorithm).update_names(own, message):
            changes = change_of(algorithm, name, message, own)
            agreed = self.attack.collude_against(name, changes, change_of(algorithm, name, theirs, others))
            if agreed is changes:
                continue
            self._check_changes("collude", name, agreed, changes)
            base = base_of(algorithm, name, message, own)
            found[name] = replies[name].index_copy(0, places, agreed if base is None else base + agreed)
        return found

    def poison_wave(self, wave: Wave, context: ServerContext) -> Wave:
        """The wave as the server sends it."""
        if not self.attack.acts_in(context.round):
            return wave
        message = self.attack.poison_message(wave, context)
        if not isinstance(message, Message):
            raise FedloomError(f"{self._name}: poison_message must return a message, got {message!r}.")
        return wave if message is wave.message else replace(wave, message=message)

    def findings(self, wave: Wave, replies: Replies) -> dict[str, float]:
        """What the server finds in what it sent and got, by the names of the records."""
        return _recorded(self.attack.look_at_replies(wave, replies) or {})

    def measure(self, row: Tensor, context: ServerContext) -> dict[str, float]:
        """How far the attack got with a model, by the names of the records."""
        return _recorded(self.attack.measure(row, context, self.members) or {})

    @property
    def _name(self) -> str:
        return f"attack {type(self.attack).__name__}"

    def _check_colluders(self, task: Task) -> None:
        """Refuse hostile clients of whom there are never enough in one wave, whose clients have the same model."""
        least, models = self.attack.least_colluders, task.architectures
        together = [self.members] if models is None else models.split(sorted(self.members)).values()
        most = max(map(len, together), default=0)
        if least > 1 and most < least:  # a hostile server may be alone
            who = "hostile clients" if models is None else "hostile clients with the same model (task.models)"
            raise FedloomError(
                f"adversary: {type(self.attack).__name__.lower()} needs at least {least} {who}, who agree on an "
                f"update, but there is never more than {most}: name others in clients, or raise fraction."
            )

    def _warn_of_few(self, together: int) -> None:
        if together < self.attack.least_colluders and "few" not in self.told:
            self.told.add("few")
            log.warning(
                "%s needs at least %s hostile clients with the same model in a round, but a round had %s: what was "
                "sent is honest (logged once per run)",
                type(self.attack).__name__.lower(),
                self.attack.least_colluders,
                together,
            )

    def _check_changes(self, hook: str, name: str, poisoned: Tensor, changes: Tensor) -> None:
        if not isinstance(poisoned, Tensor) or poisoned.shape != changes.shape:
            made = tuple(poisoned.shape) if isinstance(poisoned, Tensor) else repr(poisoned)
            raise FedloomError(
                f"{self._name}: {hook} makes {made} of the changes of {name}, of shape {tuple(changes.shape)}: "
                "return a row for each of these clients."
            )


def _recorded(found: Mapping[str, float]) -> dict[str, float]:
    """What is recorded of what an attack found: numbers that are finite."""
    return {f"adversary/{name}": float(value) for name, value in found.items() if math.isfinite(value)}
