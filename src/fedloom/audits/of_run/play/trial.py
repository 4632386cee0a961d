"""One trial of the audit: the run that is audited, with a defence, a seed and a number of its rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedloom.audits.of_run.play.subject import OutOfTime, Played, Subject
from fedloom.core.attack import Attack


@dataclass
class Trial:
    """What a probe plays.

    Args:
        subject: The run that is audited.
        settings: Its values with the defence.
        rounds: How many of its rounds are played.
        plain_score: What the run with this defence scores without an attack; None where that is not known.
        left: How many seconds of the budget are left.
    """

    subject: Subject
    settings: Mapping[str, Any]
    seed: int
    rounds: int
    plain_score: float | None = None
    left: Callable[[], float] = lambda: math.inf
    _plain: list[Played] = field(default_factory=list)

    def play(self, adversary: Attack | Mapping[str, Any] | None = None, rounds: int | None = None) -> Played:
        """The beginning of the run, with an attack.

        Args:
            adversary: The part, or its name and settings.
            rounds: How many rounds; as many as the audit plays by default.
        """
        last = self.rounds if rounds is None else rounds
        return self.subject.play(self.settings, self.seed, last, adversary, self.over)

    @property
    def plain(self) -> Played:
        """The run without an attack; played once for all probes of a defence and a seed."""
        if not self._plain:
            self._plain.append(self.play())
        return self._plain[0]

    def over(self) -> bool:
        """Whether the budget has ended."""
        return self.left() <= 0

    def check_time(self, times: float, pilot: Callable[[], object]) -> None:
        """End a trial that does not fit, before what nobody can stop in the middle.

        Args:
            times: How many times as long as the pilot it takes.
            pilot: A little of the same; what comes of it is not used.
        """
        for _ in range(2):  # the first also imports what it needs, which the whole would not do again
            before = self.left()
            pilot()
            if times * (before - self.left()) <= self.left():
                return
        raise OutOfTime

    def watch(self, _: dict[str, Any]) -> None:
        """End a run that a probe plays by itself when the budget has ended: an observer.

        Args:
            _: The record of a round.
        """
        if self.over():
            raise OutOfTime
