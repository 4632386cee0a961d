"""What an audit found: of each attack with each defence what it got, and of each defence what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedloom.audits.of_run.play.defences import CONFIGURED
from fedloom.audits.of_run.probes.probe import Kind, Sample, Unit

FORMAT = 1
"""The number of the layout of ``audit.json``."""
LEVELS = ((0.5, "severe"), (0.25, "serious"), (0.1, "some"), (0.0, "little or nothing"))
"""From which badness on a finding is called what."""
LEARNT = 0.1
"""A model has learnt if it has come so far from a guess: of what is left to a perfect score, or of an error."""
LIMITS = (
    "An audit shows leaks; it never proves that there are none. What was not found may be found by another attack, by "
    "more effort, or by somebody who knows more.",
    "It attacks a simulation of the run with the data that are here, and no machine of a deployment.",
    "Intervals are of one seed (95 %); ± is the standard deviation over seeds, which also differ in who has which data "
    "where the run divides them.",
)


@dataclass(frozen=True)
class Number:
    """A number over the seeds that were played.

    Args:
        value: The mean over seeds.
        std: The standard deviation over seeds; None for one.
        least: The lower end of the 95 % interval of a single seed; None for several.
        most: The upper end.
    """

    value: float
    std: float | None = None
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Finding:
    """What an attack got in the run with one setting.

    Args:
        probe: The attack.
        kind: Whether it learns something (``leak``) or ruins something (``break``).
        who: Who attacks.
        what: What they get, as the sentence goes on.
        setting: ``as configured``, or the defence.
        status: ``measured``; ``refused`` if it does not apply; ``broke``; or ``no time``.
        reason: Why it was not measured.
        measure: The name of the number that it is read by.
        words: What that number says.
        unit: How it is written.
        seeds: With how many seeds it was played.
        badness: From 0 to 1.
        note: What is to be said of it besides.
        samples: The best of what was rebuilt, of the first seed.
        samples_range: The lowest and the highest value of their numbers.
    """

    probe: str
    kind: Kind
    who: str
    what: str
    setting: str
    status: str
    reason: str
    measure: str
    words: str
    unit: Unit
    numbers: Mapping[str, Number] = field(default_factory=dict)
    seeds: int = 0
    badness: float = 0.0
    note: str = ""
    samples: tuple[Sample, ...] = ()
    samples_range: tuple[float, float] = (0.0, 1.0)

    @property
    def measured(self) -> bool:
        """Whether there is a number."""
        return self.status == "measured"

    @property
    def number(self) -> Number:
        """The number that it is read by."""
        return self.numbers[self.measure]

    @property
    def level(self) -> str:
        """How bad it is, in a word; nothing that guessing would not get is bad."""
        if self.unit == "auc" and self.measured and not self.is_beyond_guessing:
            return LEVELS[-1][1]
        return next(word for least, word in LEVELS if self.badness >= least)

    @property
    def is_beyond_guessing(self) -> bool:
        """Whether an AUC is above 0.5 by more than its interval, or than two standard errors over seeds."""
        least = self.number.least
        if least is None:
            least = self.number.value - 2 * (self.number.std or 0.0) / max(self.seeds, 1) ** 0.5
        return least > 0.5


@dataclass(frozen=True)
class ProtectedRun:
    """The run with one setting: what it scores and costs without an attack, and the worst that attacks got.

    Args:
        name: ``as configured``, or the defence.
        words: What it protects with.
        refused: Why the run does not allow it; empty if it does.
        score: What its models score.
        guess: What answering without having learnt anything scores; None where the task knows no such answer.
        megabytes: What is sent in the rounds that were played.
        seconds: How long they took, the fastest of the seeds.
        epsilon: The epsilon that the run states after these rounds, if it has one.
        worst_leak: The badness of the worst leak that was found with it.
        worst_break: The same of what was ruined.
        compared: With how many attacks, the same ones for all, it was compared.
        on_frontier: Whether no other setting is at least as good in score, bytes, leak and ruin, and better in one.
    """

    name: str
    words: tuple[str, ...] = ()
    refused: str = ""
    score: Number | None = None
    guess: Number | None = None
    megabytes: float = 0.0
    seconds: float = 0.0
    epsilon: float | None = None
    worst_leak: float = 0.0
    worst_break: float = 0.0
    compared: int = 0
    on_frontier: bool = False


@dataclass(frozen=True)
class Paragraph:
    """One question of an assessment for a data-protection officer.

    Args:
        about: The question.
        sentences: The answers.
    """

    about: str
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join((f"{self.about}. {self.sentences[0]}", *(f"- {one}" for one in self.sentences[1:])))


@dataclass(frozen=True)
class Audit:
    """What an audit of a run found.

    Args:
        task: What the run trains on.
        method: The method, with its prediction stages.
        clients: How many clients there are.
        rounds: How many rounds the run has.
        rounds_played: How many of them were played.
        minutes: The budget.
        score_name: What models are scored by.
        score_is_share: Whether that is a share.
        higher_is_better: Whether more of it is better.
        protections: The run as configured, then with each defence.
        findings: What each attack got with each setting, the worst first.
        config: The complete configuration of the run.
        assessment: The paragraphs for a data-protection officer: who could learn what, how likely, what reduces it.
        folder: Where it is kept; None if it is not.
    """

    task: str
    method: str
    clients: int
    rounds: int
    rounds_played: int
    seed: int
    minutes: float
    score_name: str
    score_is_share: bool
    higher_is_better: bool
    protections: tuple[ProtectedRun, ...]
    findings: tuple[Finding, ...]
    config: Mapping[str, Any]
    assessment: tuple[Paragraph, ...] = ()
    folder: Path | None = None

    @property
    def plain(self) -> ProtectedRun | None:
        """The run as configured, without an attack."""
        return next((one for one in self.protections if one.name == CONFIGURED), None)

    @property
    def has_learnt_little(self) -> bool:
        """Whether the run as configured scores hardly better than answering without having learnt anything."""
        if self.plain is None or self.plain.score is None or self.plain.guess is None:
            return False
        guess = self.plain.guess.value
        room = 1 - guess if self.score_is_share and self.higher_is_better else abs(guess)
        gain = self.plain.score.value - guess
        return (gain if self.higher_is_better else -gain) < LEARNT * room

    def of(self, setting: str = CONFIGURED) -> list[Finding]:
        """The findings with one setting, the worst first.

        Args:
            setting: ``as configured``, or a defence as it was named.
        """
        return [one for one in self.findings if one.setting == setting]

    def find(self, probe: str, setting: str = CONFIGURED) -> Finding | None:
        """What one attack got; None if it is not there.

        Args:
            probe: The attack.
            setting: ``as configured``, or a defence as it was named.
        """
        return next((one for one in self.of(setting) if one.probe == probe), None)

    def as_dict(self) -> dict[str, Any]:
        """The audit as plain values: what ``audit.json`` has."""
        plain = {key: value for key, value in asdict(self).items() if key != "folder"}
        plain["findings"] = [
            {**found, "level": one.level} for found, one in zip(plain["findings"], self.findings, strict=True)
        ]
        return {"format": FORMAT, **plain, "limits": list(LIMITS)}

    def __str__(self) -> str:
        return "\n\n".join((*map(str, self.assessment), LIMITS[0]))
