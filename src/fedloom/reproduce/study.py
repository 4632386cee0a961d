"""A study: the runs that repeat an experiment of a paper or thesis, and its findings compared with our numbers.

A study names its runs, runs them (each in its own folder, so that a stopped study continues where it was), and turns
what they measured into tables and findings. A finding is the document's sentence, our numbers, and whether it holds
here. Findings that do not hold are shown like all others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import nan
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from fedloom.config.resolve import override
from fedloom.core.errors import FedloomError
from fedloom.files.atomic_write import write_atomic
from fedloom.runs.plans.members import Member, ObserversOf, RunFactory, run_members
from fedloom.runs.results.history import History
from fedloom.runs.results.significance import LEAST_SEEDS, half_width


@dataclass(frozen=True)
class StudyFinding:
    """A statement of the document, what we measured, and whether it holds (None: shown, not judged)."""

    says: str
    ours: str
    holds: bool | None

    @property
    def mark(self) -> str:
        """✓, ✗ or – for what is not judged."""
        return "–" if self.holds is None else "✓" if self.holds else "✗"


@dataclass(frozen=True)
class StudyTable:
    """A table of a study: title, column names, and cells as text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class StudyOutcome:
    """The results of a study."""

    name: str
    title: str
    tables: tuple[StudyTable, ...]
    findings: tuple[StudyFinding, ...]
    notes: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    """The numbers behind the tables."""

    def to_json(self) -> str:
        """All results as JSON."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False)

    def to_markdown(self) -> str:
        """All results as a page of Markdown."""
        lines = [f"# {self.title}", ""]
        for table in self.tables:
            lines += [f"**{table.title}**", "", _row(table.columns), _row(["---"] * len(table.columns))]
            lines += [*map(_row, table.rows), ""]
        lines += [f"- {finding.mark} {finding.says} Ours: {finding.ours}" for finding in self.findings]
        return "\n".join([*lines, "", *self.notes, ""])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


@dataclass(frozen=True)
class StudyRequest:
    """How to run a study: number of seeds, output folder, and settings to change in all of its runs."""

    seeds: int
    out: Path
    workers: int = 1
    data: str = ""
    settings: tuple[str, ...] = ()
    watch: ObserversOf = lambda *_: ()

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise FedloomError(f"seeds={self.seeds}: a study needs at least one seed.")

    def with_observers(self, watch: ObserversOf) -> StudyRequest:
        """A copy with observers for each run."""
        return replace(self, watch=watch)

    def changed(self, members: Sequence[Member]) -> list[Member]:
        """The members with the request's settings."""
        return [replace(member, values=override(_copy(member.values), self.settings)) for member in members]

    def run(
        self, members: Sequence[Member], may_stop: bool = False, only_seed: int | None = None
    ) -> dict[str, list[History]]:
        """A history per member and seed: read, resumed or run.

        Args:
            may_stop: Whether runs may stop early.
            only_seed: The only seed, instead of those of the study.
        """
        factory = RunFactory(kept_tasks=2, cores=self.workers)
        seeds = range(self.seeds) if only_seed is None else range(only_seed, only_seed + 1)
        found = run_members(self.out, self.changed(members), seeds, self.watch, factory)
        for label, histories in found.items():
            for seed, history in zip(seeds, histories, strict=True):
                if history.stopped and not may_stop:
                    raise FedloomError(f"{label} with seed {seed} stopped: {history.stopped}")
        return found


def _copy(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copy(value) if isinstance(value, Mapping) else value for key, value in values.items()}


@dataclass(frozen=True)
class Study:
    """A named experiment of a document."""

    name: str
    about: str
    run: Callable[[StudyRequest], StudyOutcome]
    members: Callable[[StudyRequest], Sequence[Member]]
    """The runs of the study, to show its progress."""
    seeds: int = 3
    data: tuple[str, ...] = ()
    """The corpora it can run on; the first is the default."""


def run_study(study: Study, request: StudyRequest) -> StudyOutcome:
    """Run a study and write its results beside its runs: outcome.json and outcome.md."""
    if request.data and request.data not in study.data:
        known = f"use {' or '.join(study.data)}" if study.data else "it has only one corpus, so leave --data out"
        raise FedloomError(f"Study {study.name} has no data '{request.data}': {known}.")
    outcome = study.run(request)
    request.out.mkdir(parents=True, exist_ok=True)
    write_atomic(request.out / "outcome.json", outcome.to_json().encode())
    write_atomic(request.out / "outcome.md", outcome.to_markdown().encode())
    return outcome


def mean_text(values: Sequence[float], scale: float = 100.0) -> str:
    """Mean ± standard deviation over seeds, in percentage points."""
    some = f" ± {scale * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{scale * fmean(values):.1f}{some}"


BASELINE = "baseline: majority class"
"""The row of what answering without a model scores."""
OWN_BASELINE = "baseline: each client's majority class"


def baseline_score(history: History, metric: str, name: str | None = None) -> float:
    """What a baseline of a run's task scored; NaN where it was not measured.

    Args:
        metric: The full name of the metric.
        name: The baseline; the first one by default.
    """
    named = (one for one in history.baselines if name in (None, one["name"]))
    return next((float(one["metrics"].get(metric, nan)) for one in named), nan)


def gaps_of(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """The differences of two methods, seed by seed."""
    return [first - second for first, second in zip(one, other, strict=True)]


def ahead_finding(
    says: str,
    ours: str,
    one: Sequence[float],
    other: Sequence[float],
    by: float = 0.0,
    scale: float = 100.0,
    unit: str = " points",
) -> StudyFinding:
    """The finding that one mean is above another by more than ``by`` (a share, not points), seed by seed.

    Its text has the difference and its standard error. It is not decided, and says so, if the difference is within
    noise: if Student's interval (paired over seeds, 95 %) includes ``by``. Fewer than three seeds decide nothing.

    Args:
        says: The sentence.
        ours: Both numbers.
        one: The values that should be above, by seed.
        other: The other values.
        by: How far they should be above.
        scale: What the text multiplies the difference by.
        unit: What it says behind it.
    """
    gaps = gaps_of(one, other)
    mean, wide = fmean(gaps), half_width(np.array(gaps))
    enough = len(gaps) >= LEAST_SEEDS
    decided = enough and (not wide or abs(mean - by) > wide)  # seeds that all agree are not noise
    error = "" if wide is None else f" ± {scale * stdev(gaps) / len(gaps) ** 0.5:.1f}"
    difference = f"{scale * mean:+.1f}{error}{unit}"
    noise = "" if decided else ", within noise" if enough else ", too few seeds to decide"
    return StudyFinding(says, f"{ours}: {difference}{noise}.", mean > by if decided else None)
