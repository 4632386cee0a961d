"""The reading of a plan's folder: which runs it has, and how far each of them is.

Every run that has begun is read by a :class:`StatusReader` of its own, so a long plan costs no more to watch than what
is new in it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedloom.config.method_spec import run_label
from fedloom.config.schema import RunConfig
from fedloom.config.settings import DEFAULT_ROUNDS
from fedloom.config.task_title import task_title
from fedloom.core.errors import FedloomError
from fedloom.deploy.protocol.printable import printable_line
from fedloom.files.json_text import parse_json
from fedloom.files.regular_file import read_regular
from fedloom.registry.validation import read_toml
from fedloom.runs.folder.folder_lock import lock_holder
from fedloom.runs.plans import sweep
from fedloom.runs.plans.compare import label_with_settings
from fedloom.runs.plans.members import folder_name
from fedloom.runs.plans.plan import PLAN_FILES, load_plan, seeds_of
from fedloom.runs.results.history import History
from fedloom.watch.plan_status import Line, MemberStatus, PlanKind, PlanStatus
from fedloom.watch.status import Curve, Phase
from fedloom.watch.status_reader import StatusReader

INTERVAL = 1.0
"""Seconds for which a reading is believed."""
MOST_LINES, MOST_POINTS = 60, 150
"""Runs whose curves are drawn, at most, and points of each."""
MOST_CELLS = 2000
"""Attacks of an audit that are listed, at most."""
RESULTS: dict[PlanKind, str] = {"advice": "advice.json", "audit": "audit.json"}
"""What a plan writes at its end; a comparison and a sweep are at theirs when their runs are."""


@dataclass(frozen=True)
class Planned:
    """A run that a plan has: what it is called, where it will be, and how many rounds it has."""

    label: str
    seed: int
    folder: Path
    rounds: int | None


def plan_file(folder: Path) -> str | None:
    """The name of the plan's file in a folder; None if there is no plan in it."""
    return next((name for name in PLAN_FILES if (folder / name).is_file()), None)


class PlanReader:
    """Reads the folder of a plan again and again; several threads may use it at once.

    Args:
        folder: The folder of a comparison, a sweep, advice or an audit.
    """

    def __init__(self, folder: Path) -> None:
        file = plan_file(folder)
        if file is None:
            raise FedloomError(f"{folder} holds no plan: name the folder of a comparison, sweep, advice or audit.")
        self.folder, self.file = folder, file
        self.kind: PlanKind = PLAN_FILES[file]  # type: ignore[assignment]
        self.lock = threading.RLock()
        self._plan: dict[str, Any] = {}
        self._stamp = -1
        self._members: list[Planned] = []
        self._labels: dict[Path, str] = {}
        self._readers: dict[Path, StatusReader] = {}
        self._read_at, self._status = float("-inf"), PlanStatus(self.kind, str(folder), folder.name)

    def read(self) -> PlanStatus:
        """The state of the plan now, or at most a second ago."""
        with self.lock:
            if time.monotonic() - self._read_at > INTERVAL:
                first, self._read_at = self._read_at < 0, time.monotonic()
                try:
                    self._status = self._audit_status() if self.kind == "audit" else self._plan_status()
                except (FedloomError, OSError) as why:
                    if first:
                        raise
                    self._status = replace(self._status, notes=[printable_line(str(why), 300)])
            return self._status

    def _plan_status(self) -> PlanStatus:
        self._read_plan()
        planned = list(self._advice_runs()) if self.kind == "advice" else self._members
        read = [self._read_member(one) for one in planned]
        members = [member for member, _ in read]
        curves = next((reader.read().curves for _, reader in read if reader is not None), ())
        if self.kind == "advice":  # candidates are scored on validation parts, which stand for tests in their runs
            curves = [replace(one, title=one.title.replace("test set", "validation set")) for one in curves]
        changed = max([one.last_record or 0.0 for one in members] + [self._stamp / 1e9])
        return replace(
            self._about(),
            members=members,
            curves=list(curves),
            lines=list(_lines([reader for _, reader in read], curves)),
            changed=changed,
        )

    def _about(self) -> PlanStatus:
        minutes = self._plan.get("minutes")
        result = RESULTS.get(self.kind)
        return PlanStatus(
            self.kind,
            str(self.folder),
            self._title(),
            has_result=result is not None and (self.folder / result).is_file() and not self._is_behind(result),
            minutes=float(minutes) if isinstance(minutes, int | float) else None,
            began=self._stamp / 1e9,
            changed=self._stamp / 1e9,
        )

    def _is_behind(self, result: str) -> bool:
        """Whether a result is older than the plan, which was given more minutes since."""
        return (self.folder / result).stat().st_mtime_ns < self._stamp

    def _title(self) -> str:
        config = self._plan.get("config", {})
        data = task_title(config)
        if self.kind == "comparison":
            what = f"{len(self._plan['methods'])} methods on {data}"
        elif self.kind == "sweep":
            what = f"Sweep of {', '.join(self._plan['grid'])} on {data}"
        elif self.kind == "advice":
            what = f"Advice for {data}"
        else:
            what = f"Audit of {_label(config)} on {data}"
        return printable_line(what, 120)

    def _read_plan(self) -> None:
        """Read the plan, if it is new: comparisons grow."""
        stamp = (self.folder / self.file).stat().st_mtime_ns
        if stamp == self._stamp:
            return
        self._plan = load_plan(self.folder, self.file)
        self._stamp = stamp
        if self.kind in ("comparison", "sweep"):
            self._members = self._planned_runs()

    def _planned_runs(self) -> list[Planned]:
        plan = self._plan
        if self.kind == "sweep":
            each = [(one.label, one.folder_name, one.rounds) for one in sweep.members(plan)]
        else:
            rounds = int(plan["config"].get("rounds", DEFAULT_ROUNDS))
            each = [(str(spec), folder_name(str(spec)), rounds) for spec in plan["methods"]]
        return [
            Planned(printable_line(label, 120), seed, self.folder / f"{name}-seed{seed}", rounds)
            for seed in seeds_of(plan)
            for label, name, rounds in each
        ]

    def _advice_runs(self) -> Iterator[Planned]:
        """The runs of a tournament so far: which ones follow depends on their results."""
        found = sorted(self.folder.glob("*-seed*/config.toml"), key=lambda path: (path.stat().st_mtime_ns, path))
        for path in found:
            name, _, seed = path.parent.name.rpartition("-seed")
            if seed.isdigit():
                label = self._labels.setdefault(path, _candidate(path) or name)
                yield Planned(printable_line(label, 120), int(seed), path.parent, None)

    def _read_member(self, planned: Planned) -> tuple[MemberStatus, StatusReader | None]:
        waiting = MemberStatus(planned.label, planned.seed, rounds=planned.rounds)
        if planned.folder not in self._readers and not (planned.folder / "config.toml").is_file():
            return waiting, None
        try:
            reader = self._readers.setdefault(planned.folder, StatusReader(planned.folder))
            status = reader.read()
        except (FedloomError, OSError) as why:
            return replace(waiting, phase="failed", reason=printable_line(str(why), 300)), None
        names = [curve.name for curve in status.curves]
        phase: Phase = "running" if status.process is not None and status.phase == "waiting" else status.phase
        rounds = max((one for one in (status.rounds, planned.rounds) if one is not None), default=None)
        if phase == "finished" and status.round is not None and rounds is not None and status.round < rounds:
            phase = "waiting"  # the plan was given more rounds
        member = replace(
            waiting,
            phase=phase,
            reason=status.reason if phase == "stopped" else "",
            round=status.round,
            rounds=rounds,
            round_seconds=status.round_seconds,
            latest={name: status.metrics[name] for name in names if name in status.metrics},
            trouble=status.stall(time.time()),
            last_record=status.last_record,
            folder=planned.folder.name,
        )
        return member, reader

    # -- an audit, of whose runs only results are kept

    def _audit_status(self) -> PlanStatus:
        self._read_plan()
        about, cells = self._about(), sorted((self.folder / "cells").glob("*.json"))[:MOST_CELLS]
        members = [one for one in map(_cell, cells) if one is not None]
        changed = max([about.changed, *(one.last_record or 0.0 for one in members)])
        return replace(about, members=members, changed=changed, working=lock_holder(self.folder) is not None)


def _candidate(config: Path) -> str | None:
    """The candidate of a tournament whose run has a config, as the tournament calls it; None if that cannot be read."""
    try:
        values = read_toml(config)
        return f"{label_with_settings(History(values))} lr={values['local']['lr']}"
    except (FedloomError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _label(config: dict[str, Any]) -> str:
    method = config.get("method", RunConfig().method)
    try:
        return method if isinstance(method, str) else run_label({"method": method})
    except (KeyError, TypeError, AttributeError):
        return "a run"


def _cell(path: Path) -> MemberStatus | None:
    """An attack of an audit that was played; None for a file that says nothing of one."""
    try:
        found, when = parse_json(read_regular(path)), path.stat().st_mtime
        label = printable_line(f"{found['probe']} ({found['setting']})", 120)
        seed, status, reason = int(found["seed"]), str(found["status"]), printable_line(str(found["reason"]), 300)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    phase: Phase = "finished" if status == "measured" else "stopped" if status == "refused" else "failed"
    return MemberStatus(label, seed, phase, reason, last_record=when, folder=path.name)


def _lines(readers: Sequence[StatusReader | None], curves: Sequence[Curve]) -> Iterator[Line]:
    begun = [(place, reader) for place, reader in enumerate(readers) if reader is not None][:MOST_LINES]
    for place, reader in begun:
        with reader.lock:
            rounds = list(reader.records.rounds)
            for curve in curves:
                column = reader.records.metrics.get(curve.name, ())
                points = [(r, v) for r, v in zip(rounds, column, strict=False) if v is not None]
                if points:
                    kept = points[:: -(-len(points) // MOST_POINTS)]
                    kept += [points[-1]] if kept[-1] != points[-1] else []
                    yield Line(place, curve.name, [r for r, _ in kept], [v for _, v in kept])
