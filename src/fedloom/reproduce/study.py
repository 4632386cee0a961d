"""What a study is: runs that stand for a document's experiment, and its findings held against our numbers.

A study names its runs, plays them (each in a folder of its own, so that a stopped study goes on where it was), and
makes tables and findings of what they measured. A finding is the document's sentence, our numbers beside it, and
whether it holds here; nothing is left out because it does not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.runs.checkpoint import write_whole
from fedloom.runs.config import override
from fedloom.runs.history import History
from fedloom.runs.plans.plan import Member, Watch, Workshop, go_on


@dataclass(frozen=True)
class Finding:
    """A sentence of the document, what we measured, and whether it holds (None: shown, not judged)."""

    says: str
    ours: str
    holds: bool | None

    @property
    def mark(self) -> str:
        """✓, ✗ or – for what is not judged."""
        return "–" if self.holds is None else "✓" if self.holds else "✗"


@dataclass(frozen=True)
class Table:
    """A table of a study: a title, the names of its columns, and cells as they are shown."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Outcome:
    """What a study found."""

    name: str
    title: str
    tables: tuple[Table, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    """The numbers behind the tables, for those who go on with them."""

    def to_json(self) -> str:
        """Everything, as JSON."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False)

    def to_markdown(self) -> str:
        """Everything, as a page of Markdown."""
        lines = [f"# {self.title}", ""]
        for table in self.tables:
            lines += [f"**{table.title}**", "", _row(table.columns), _row(["---"] * len(table.columns))]
            lines += [*map(_row, table.rows), ""]
        lines += [f"- {finding.mark} {finding.says} Ours: {finding.ours}" for finding in self.findings]
        return "\n".join([*lines, "", *self.notes, ""])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


@dataclass(frozen=True)
class Asked:
    """What a user asks of a study: how many seeds, where the runs go, and settings to change in all of them."""

    seeds: int
    out: Path
    workers: int = 1
    data: str = ""
    settings: tuple[str, ...] = ()
    watch: Watch = lambda *_: ()

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise FedloomError(f"seeds={self.seeds}: at least one is needed.")

    def watched(self, watch: Watch) -> Asked:
        """The same, with observers for each run."""
        return replace(self, watch=watch)

    def play(self, members: Sequence[Member], may_stop: bool = False) -> dict[str, list[History]]:
        """A history per member and seed: read, gone on with, or run. A run that diverged is refused, unless it may."""
        changed = [Member(m.label, m.place, override(_copied(m.values), self.settings), m.algorithm) for m in members]
        workshop = Workshop(workers=self.workers, remembers=2)
        found = go_on(self.out, changed, range(self.seeds), self.watch, workshop)
        for label, histories in found.items():
            for seed, history in enumerate(histories):
                if history.stopped and not may_stop:
                    raise FedloomError(f"{label} with seed {seed} stopped: {history.stopped}")
        return found


def _copied(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copied(value) if isinstance(value, Mapping) else value for key, value in values.items()}


@dataclass(frozen=True)
class Study:
    """A named experiment of a document."""

    name: str
    about: str
    run: Callable[[Asked], Outcome]
    members: Callable[[Asked], Sequence[Member]]
    """The runs of the study, to show how far it is."""
    seeds: int = 3
    data: tuple[str, ...] = ()
    """The corpora on which it can be played; the first is the default."""


def finished(study: Study, asked: Asked) -> Outcome:
    """Play a study and write what it found beside its runs: outcome.json and outcome.md."""
    if asked.data and asked.data not in study.data:
        known = f"it knows {', '.join(study.data)}" if study.data else "it has one corpus only: leave --data out"
        raise FedloomError(f"study {study.name} has no data '{asked.data}': {known}.")
    outcome = study.run(asked)
    asked.out.mkdir(parents=True, exist_ok=True)
    write_whole(asked.out / "outcome.json", outcome.to_json().encode())
    write_whole(asked.out / "outcome.md", outcome.to_markdown().encode())
    return outcome


def spread(values: Sequence[float], scale: float = 100.0) -> str:
    """Mean ± standard deviation over seeds, in points."""
    some = f" ± {scale * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{scale * fmean(values):.1f}{some}"


def ahead(says: str, ours: str, one: Sequence[float], other: Sequence[float], by: float = 0.0) -> Finding:
    """Whether one mean is above another by more than ``by`` (shares, not points), seed by seed.

    The sentence says how much, and whether two standard errors of the difference could have made it.
    """
    gaps = [a - b for a, b in zip(one, other, strict=True)]
    mean = fmean(gaps)
    error = stdev(gaps) / len(gaps) ** 0.5 if len(gaps) > 1 else 0.0
    noise = ", within noise" if len(gaps) > 1 and abs(mean - by) <= 2 * error else ""
    told = f"{100 * mean:+.1f} ± {100 * error:.1f} points" if len(gaps) > 1 else f"{100 * mean:+.1f} points"
    return Finding(says, f"{ours}: {told}{noise}.", mean > by)
