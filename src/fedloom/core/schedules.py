"""How a learning rate changes over the rounds of a run, and over the steps of a round: factors of the rate.

Clients' rates (``LocalWork``) and the server's (``ServerOptimizer``) change over rounds in the same ways, so both are a
``RoundSchedule``. A function of a user's own has a name here (``my_file.py:rate``); the registry, which may run code,
finds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, Protocol

from fedloom.core.errors import FedloomError, unknown
from fedloom.core.settings import Count, Positive, WholeNumber

SCHEDULES = ("constant", "step", "exponential", "cosine", "onecycle")
NEED_ALL_ROUNDS = ("cosine", "onecycle")
RISE, START, END = 0.3, 1 / 25, 1 / 25e4
"""Of ``onecycle``: the share of rounds in which the rate rises, and its factors at the start and at the end."""

RoundShape = Literal["constant", "linear", "cosine"]
"""How a learning rate changes over the steps of a round."""


class OwnSchedule(Protocol):
    """A function of a user's own that gives factors of the learning rate."""

    @property
    def arguments(self) -> Collection[str]:
        """Which of ``round``, ``rounds``, ``step`` and ``steps`` it depends on."""

    def __call__(self, *, round: int, rounds: int, step: int, steps: int) -> float: ...


@dataclass(frozen=True, kw_only=True)
class RoundSchedule:
    """The settings of a schedule over rounds.

    Args:
        schedule: How the learning rate changes over rounds: ``constant``; ``step`` multiplies it by ``lr_decay`` every
            ``lr_every`` rounds; ``exponential`` does so every round; ``cosine`` falls to ``lr_decay`` of it at the last
            round; ``onecycle`` rises to it and falls to almost nothing.
        lr_decay: The factor of the schedule.
        lr_every: Rounds between two steps of the schedule ``step``.
        warmup: Rounds in which the learning rate rises in equal steps, before the schedule begins.
    """

    schedule: str = "constant"
    lr_decay: Positive = 1.0
    lr_every: Count = 1
    warmup: WholeNumber = 0

    @property
    def own_schedule(self) -> OwnSchedule | None:
        """The user's own function; None for a schedule of the library."""
        return _find(self.schedule) if ":" in self.schedule else None

    @property
    def needs_all_rounds(self) -> bool:
        """Whether the rate of a round depends on how many rounds there are."""
        own = self.own_schedule
        return self.schedule in NEED_ALL_ROUNDS if own is None else "rounds" in own.arguments

    @property
    def has_own_steps(self) -> bool:
        """Whether it is a user's own function that also depends on the step within a round."""
        own = self.own_schedule
        return own is not None and not {"step", "steps"}.isdisjoint(own.arguments)

    def check_schedule(self, section: str) -> None:
        """Refuse a schedule that there is not, and settings that it does not have.

        Args:
            section: What a user calls the section of these settings.
        """
        if ":" not in self.schedule and self.schedule not in SCHEDULES:
            raise unknown(f"{section}.schedule", self.schedule, SCHEDULES)
        shape = "onecycle" if self.schedule == "onecycle" else "a function of your own" * (":" in self.schedule)
        extra = [name for name, given in (("warmup", self.warmup), ("lr_decay", self.lr_decay != 1)) if given]
        if shape and extra:
            raise FedloomError(
                f"{section}.{extra[0]} is not for {shape}, which decides by itself how the learning rate changes: "
                "leave it out."
            )

    def factor_at(self, round_number: int, rounds: int, step: int = 0, steps: int = 1) -> float:
        """The factor of the learning rate in a round.

        Args:
            round_number: The round, counted from 1; what comes before round 1 has the rate of round 1.
            rounds: How many rounds the run has.
            step: The step within the round, counted from 0; only functions of a user's own look at it.
            steps: How many steps the client makes in the round.
        """
        own, done = self.own_schedule, max(round_number - 1, 0)
        if own is not None:
            return own(round=done + 1, rounds=rounds, step=step, steps=steps)
        if self.schedule == "onecycle":
            return one_cycle(done, rounds)
        if done < self.warmup:
            return (done + 1) / (self.warmup + 1)
        return self._after_warmup(done - self.warmup, rounds - self.warmup)

    def _after_warmup(self, done: int, rounds: int) -> float:
        decay = self.lr_decay
        if self.schedule == "step":
            return float(decay ** (done // self.lr_every))
        if self.schedule == "exponential":
            return float(decay**done)
        if self.schedule == "cosine":
            return decay + (1 - decay) * (1 + math.cos(math.pi * done / max(rounds - 1, 1))) / 2
        return 1.0


def one_cycle(done: int, rounds: int) -> float:
    """The factor of torch's ``OneCycleLR`` with its usual settings, a round being a step; 1 in a run of one round.

    Smith and Topin, Super-Convergence, 2018, https://arxiv.org/abs/1708.07120.

    Args:
        done: How many rounds came before.
        rounds: How many there are.
    """
    if rounds <= 1:
        return 1.0
    top, last = RISE * rounds - 1, rounds - 1
    if done <= top:
        return _cosine(START, 1.0, done / top if top else 1.0)
    return _cosine(1.0, END, (done - top) / (last - top))


def within_round(shape: RoundShape, end: float, step: int, steps: int) -> float:
    """The factor of the learning rate at a step of a round; 1 at its first step.

    Args:
        shape: How the factor changes.
        end: What it is at the last step.
        step: The step, counted from 0.
        steps: How many steps the client makes in the round.
    """
    share = step / max(steps - 1, 1)
    if shape == "linear":
        return 1 + (end - 1) * share
    return _cosine(1.0, end, share) if shape == "cosine" else 1.0


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


def _no_registry(name: str) -> OwnSchedule:
    raise RuntimeError(f"schedule '{name}': nobody said how functions are found")


_find: Callable[[str], OwnSchedule] = _no_registry


def find_own_schedules_by(find: Callable[[str], OwnSchedule]) -> None:
    """Say how a user's own function is found by its name: core runs no code of users."""
    global _find
    _find = find
