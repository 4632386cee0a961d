"""The adversary: some clients play another role, and who they are (``core/attack.py`` has what they can do)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import MinLen

from fedloom.core.attack import Attack
from fedloom.core.errors import FedloomError
from fedloom.core.seeds import numpy_generator
from fedloom.core.settings import Count, Share, WholeNumber

FORMED = "formed"
"""Says of ``groups`` that they are those that the method forms."""


@dataclass(frozen=True)
class Adversary(Attack):
    """The base class of attacks by clients: the hostile ones behave like others unless a function says otherwise.

    Args:
        clients: The numbers of the hostile clients; by default they are drawn by the run's seed.
        fraction: The share of hostile clients if ``clients`` does not name them, rounded up; with 0 nobody is.
        groups: Groups of clients who turn hostile together, such as FedSeq's given ``chains``, or ``formed``: those
            that the method forms itself before round 1. ``fraction`` is then the share of hostile groups.
        start: The first round of the attack.
        stop: Its last round; by default the run's. With ``stop = start`` it is one shot.
    """

    clients: Annotated[list[WholeNumber], MinLen(1)] | None = None
    fraction: Share = 0.2
    groups: Annotated[list[list[WholeNumber]], MinLen(1)] | Literal["formed"] | None = field(default=None, kw_only=True)
    start: Count = field(default=1, kw_only=True)
    stop: Count | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__.lower()
        if self.stop is not None and self.stop < self.start:
            raise FedloomError(f"{name}: stop={self.stop}: the attack starts in round {self.start}, stop it later.")
        if self.groups is not None and self.clients is not None:
            raise FedloomError(f"{name}: clients and groups both say who is hostile: leave one of them out.")

    @property
    def first_round(self) -> int:
        return self.start

    @property
    def lasts(self) -> bool:
        return self.start == 1 and self.stop is None

    def acts_in(self, round_number: int) -> bool:
        return self.start <= max(round_number, 1) <= (self.stop or math.inf)

    @property
    def draws_from_formed_groups(self) -> bool:
        return self.groups == FORMED

    @property
    def waits_for_groups(self) -> bool:
        return self.draws_from_formed_groups and self.fraction > 0

    def members(self, participants: Sequence[int], seed: int) -> frozenset[int]:
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
        number = math.ceil(self.fraction * len(groups) - 1e-9)
        drawn = numpy_generator(seed, "adversary").choice(len(groups), number, replace=False)
        return frozenset(client for place in drawn for client in groups[place])
