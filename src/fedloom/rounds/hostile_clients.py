"""The hostile clients of a run: an attack, and who carries it out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from fedloom.core.adversary import Adversary
from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.message import Message, Replies, Reply, Wave
from fedloom.rounds.channel import Channel, change_of


@dataclass(frozen=True)
class HostileClients:
    """An attack and the clients that carry it out."""

    adversary: Adversary
    members: frozenset[int]

    def attack(self, algorithm: Algorithm, reply: Reply, message: Message, cohort: Cohort) -> Reply:
        """The reply of a cohort with the updates of its hostile clients changed; the other rows keep their bytes."""
        hostile = torch.tensor([client in self.members for client in cohort.ids])
        if not algorithm.sends_updates or not bool(hostile.any()):
            return reply
        tensors = dict(reply.tensors)
        for name in Channel(algorithm).update_names(tensors, message):
            changes = change_of(algorithm, name, message, reply.tensors)
            poisoned = self.adversary.poison_update(name, changes, cohort, hostile)
            if poisoned is changes:
                continue
            base = algorithm.base(name, message, reply.tensors)
            poisoned = poisoned if base is None else base + poisoned
            tensors[name] = torch.where(hostile[:, None], poisoned, tensors[name])
        return replace(reply, tensors=tensors)

    def look(self, wave: Wave, replies: Replies) -> None:
        """Let the attack see what the server sent and got."""
        self.adversary.look(wave, replies)
