"""What the audit does to a run: a probe is one attack, with who it stands for, what it costs, and how to read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fedloom.audits.of_run.play.subject import RunSize
from fedloom.audits.of_run.play.trial import Trial

Kind = Literal["leak", "break", "cost"]
Unit = Literal["share", "auc", "epsilon"]


@dataclass(frozen=True)
class Measure:
    """A number, and between which bounds it is, where one run says that.

    Args:
        least: The lower end of its 95 % interval; None where one run has none.
        most: The upper end.
    """

    value: float
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Sample:
    """A sample beside what an attack made of it.

    Args:
        original: Its numbers: of an image channels×height×width, of a table one list.
        rebuilt: As many of the attack.
        words: How alike they are.
    """

    original: list[Any]
    rebuilt: list[Any]
    words: str


@dataclass(frozen=True)
class ProbeOutcome:
    """What a probe found with one seed.

    Args:
        measures: Its numbers by name; the one that the probe is read by among them.
        samples: The best of what it rebuilt, beside the originals.
        samples_range: The lowest and the highest value of these numbers.
        note: What is to be said of it besides.
    """

    measures: Mapping[str, Measure]
    samples: tuple[Sample, ...] = ()
    samples_range: tuple[float, float] = (0.0, 1.0)
    note: str = ""


@dataclass(frozen=True)
class AuditProbe:
    """One attack of the audit.

    Args:
        name: Its name, in tables and for files.
        kind: Whether it learns something (``leak``), ruins something (``break``), or is the run without an attack.
        who: Who does it, as a sentence begins: "the server".
        what: What they get, as the sentence goes on: "rebuilds training samples, and only looks".
        measure: The name of the number that it is read by.
        words: What that number says.
        play: Plays it once.
        badness: From 0 (nothing) to 1: how bad its number is, so that attacks can be ranked.
        unit: How the number is written.
        cost: About how many rounds of the run without an attack take as long.
        runs: How many runs it prepares.
        seconds: About how long it takes besides, whatever the run is.
        attack: The registered attack that it plays; empty for one that is none.
    """

    name: str
    kind: Kind
    who: str
    what: str
    measure: str
    words: str
    play: Callable[[Trial], ProbeOutcome]
    badness: Callable[[Mapping[str, Measure]], float]
    unit: Unit = "share"
    cost: Callable[[RunSize], float] = field(default=lambda size: float(size.rounds))
    runs: int = 1
    seconds: float = 0.0
    attack: str = ""


def share(measure: str) -> Callable[[Mapping[str, Measure]], float]:
    """A share is as bad as it is large; its root, since one sample in a hundred is somebody's already.

    Args:
        measure: The name of the share.
    """
    return lambda found: clip(found[measure].value) ** 0.5


def clip(value: float) -> float:
    """A number between 0 and 1.

    Args:
        value: Any number.
    """
    return min(1.0, max(0.0, value))
