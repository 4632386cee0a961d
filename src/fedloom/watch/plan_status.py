"""What is known of a plan at a moment: a comparison, a sweep, advice or an audit, and every run of it."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fedloom.watch.status import Curve, Phase

PlanKind = Literal["comparison", "sweep", "advice", "audit"]
PAUSE = 30.0
"""Seconds without a run that works after which a plan counts as interrupted: between two runs, data are prepared."""


@dataclass(frozen=True)
class MemberStatus:
    """A run of a plan at a moment; of an audit, an attack that was played.

    Args:
        label: The method, the combination of settings, the candidate, or the attack.
        phase: How far it is; ``waiting`` before it has begun.
        reason: Why it ended, or what is odd about it.
        round: The last round that has ended.
        rounds: How many rounds it has.
        round_seconds: The median length of its rounds.
        latest: The latest values of the drawn metrics.
        trouble: Why somebody should look at it.
        last_record: When its last round ended, in seconds since 1970.
        folder: The name of its folder; empty before it has begun.
    """

    label: str
    seed: int
    phase: Phase = "waiting"
    reason: str = ""
    round: int | None = None
    rounds: int | None = None
    round_seconds: float | None = None
    latest: Mapping[str, float] = field(default_factory=dict)
    trouble: str = ""
    last_record: float | None = None
    folder: str = ""

    @property
    def rounds_left(self) -> int:
        """How many rounds are to be played; 0 for a run that has ended."""
        if self.phase in ("finished", "stopped") or self.rounds is None:
            return 0
        return max(0, self.rounds - (self.round or 0))


@dataclass(frozen=True)
class Line:
    """The curve of a metric of a run: rounds, and values where it was measured."""

    member: int
    metric: str
    rounds: Sequence[int]
    values: Sequence[float]


@dataclass(frozen=True)
class PlanStatus:
    """A plan at a moment.

    Args:
        title: What is compared, swept or advised.
        members: Its runs, in the order in which they are played.
        curves: Which metrics are drawn.
        lines: The curves of runs that have begun.
        has_result: Whether the plan's own result is there.
        minutes: Its budget, if it has one.
        changed: When something of it changed last, in seconds since 1970.
        working: Whether a process holds the whole plan.
        notes: What is odd about the folder.
    """

    kind: PlanKind
    folder: str
    title: str
    members: Sequence[MemberStatus] = ()
    curves: Sequence[Curve] = ()
    lines: Sequence[Line] = ()
    has_result: bool = False
    minutes: float | None = None
    began: float | None = None
    changed: float = 0.0
    working: bool = False
    notes: Sequence[str] = ()

    @property
    def counts(self) -> Counter[Phase]:
        """How many runs are in each phase."""
        return Counter(one.phase for one in self.members)

    def phase(self, now: float) -> Phase:
        """How far the plan is."""
        if self.has_result or self._is_complete():
            return "finished"
        if self.working or self.counts["running"]:
            return "running"
        return "waiting" if now - self.changed < PAUSE else "interrupted"

    def _is_complete(self) -> bool:
        ended = self.counts["finished"] + self.counts["stopped"]
        return self.kind in ("comparison", "sweep") and 0 < ended == len(self.members)

    def reason(self, now: float) -> str:
        """What it waits for, or what to do."""
        phase = self.phase(now)
        if phase == "interrupted":
            return f"no process runs it: fedloom resume {self.folder} continues it."
        return "no run works at the moment: data and models are prepared." if phase == "waiting" else ""

    def trouble(self, now: float) -> str:
        """Why somebody should look at this; empty if it advances or is finished."""
        if self.phase(now) == "interrupted":
            return f"interrupted: {self.reason(now)}"
        return "; ".join(f"{one.label} with seed {one.seed}: {one.trouble}" for one in self.members if one.trouble)

    def seconds_left(self, now: float) -> float | None:
        """About how long the runs will take that are known, by the rounds of those that have begun; None if unknown.

        Runs of a method take what its other runs take, and as many go on at once as now. A plan with a budget ends
        with that at the latest.
        """
        budget = None if self.minutes is None or self.began is None else self.began + 60 * self.minutes - now
        if self.phase(now) != "running":
            return None
        if budget is not None:
            return budget if budget > 0 else None
        known = {one.label: one.round_seconds for one in self.members if one.round_seconds is not None}
        if not known:
            return None
        usual = statistics.median(known.values())
        each = [(one, one.rounds_left * known.get(one.label, usual)) for one in self.members]
        running = [seconds for one, seconds in each if one.phase == "running"]
        return max(sum(seconds for _, seconds in each) / max(1, len(running)), *running, 0.0)
