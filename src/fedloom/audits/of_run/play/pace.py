"""How long the cells of an audit take: measured on a few rounds first, then on the cells that were played.

How many rounds of the run are played is decided once, before the first cell, and kept with the audit: the most of all,
a half, a quarter ... with which every probe fits into the budget once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fedloom.audits.of_run.play.subject import RunSize, Subject
from fedloom.audits.of_run.play.trial import Trial
from fedloom.audits.of_run.probes.probe import AuditProbe
from fedloom.files.atomic_write import write_atomic
from fedloom.files.json_text import parse_json

FILE = "pace.json"
SHARE = 0.6
"""The share of the budget that every probe with every setting may take; seeds and bad estimates take the rest."""
FEWEST, TRIED = 2, 3
"""The fewest rounds that are played, if the run has as many, and how many are tried out."""
LONG = 0.03
"""A first round that takes such a share of the budget is measure enough."""
MARGIN = 1.2
"""How much longer a cell may take than the longest like it."""


@dataclass(frozen=True)
class Pace:
    """What was measured before the first cell.

    Args:
        rounds: How many rounds of the run are played.
        fixed: Seconds of a run that do not grow with its rounds.
        per_round: Seconds of a round.
    """

    rounds: int
    fixed: float
    per_round: float

    def seconds(self, probe: AuditProbe, size: RunSize) -> float:
        """How long a probe takes that was never played.

        Args:
            size: The size of what is played.
        """
        return probe.seconds + self.fixed * probe.runs + self.per_round * probe.cost(size)


def measure_pace(
    trial: Trial, probes: Sequence[AuditProbe], settings: int, seconds: float, clock: Callable[[], float]
) -> Pace:
    """Play a few rounds, and decide how many fit.

    Args:
        trial: The run as configured.
        probes: What is to be played.
        settings: With how many settings each.
        seconds: The budget.
        clock: Tells the time.
    """
    fixed, per_round = _try_out(trial, LONG * seconds, clock)
    found = Pace(1, fixed, per_round)

    anyway = settings * sum(probe.seconds for probe in probes)  # fewer rounds would not make it less
    most = max(SHARE * seconds - anyway, SHARE * seconds / 2)

    def fits(rounds: int) -> bool:
        size = trial.subject.size(rounds)
        return settings * sum(found.seconds(probe, size) for probe in probes) - anyway <= most

    every = _ladder(trial.subject)
    return Pace(next((rounds for rounds in every if fits(rounds)), every[-1]), fixed, per_round)


def _try_out(trial: Trial, long: float, clock: Callable[[], float]) -> tuple[float, float]:
    """Seconds of a run that do not grow with its rounds, and seconds of a round."""
    began = clock()
    trial.play(rounds=1)
    if clock() - began > long:
        return 0.0, clock() - began
    began = clock()  # what was imported for the first run is not counted
    trial.play(rounds=1)
    middle = clock()
    tried = min(TRIED, trial.subject.rounds)
    trial.play(rounds=tried)
    one, several = middle - began, clock() - middle
    per_round = max((several - one) / max(tried - 1, 1), 0.0)
    return max(one - per_round, 0.0), per_round


def _ladder(subject: Subject) -> list[int]:
    """All rounds, a half, a quarter ... down to a few."""
    found = [subject.rounds]
    while found[-1] > FEWEST:
        found.append(max(FEWEST, math.ceil(found[-1] / 2)))
    return found


def write_pace(folder: Path, pace: Pace) -> None:
    """Keep a pace.

    Args:
        folder: The audit's folder.
    """
    write_atomic(folder / FILE, json.dumps(asdict(pace)).encode())


def read_pace(folder: Path) -> Pace | None:
    """The pace of an audit that was begun; None if there is none.

    Args:
        folder: The audit's folder.
    """
    try:
        found = Pace(**parse_json((folder / FILE).read_text()))
        return found if found.rounds >= 1 else None
    except (OSError, ValueError, TypeError):
        return None
