"""What robust rules save: every rule against sign flipping and ALIE, where clients are alike and where they differ.

FedAvg on MNIST with 30 clients and a small network, so that a run takes a second. A rule that needs the hostile
clients' share gets the true one, and 10 % where nobody is hostile. What it cannot withstand is left empty. Rules that
compare clients are tried with buckets of two as well, where clients differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fedloom.aggregation.robust_rule import ShareRule
from fedloom.core.errors import FedloomError
from fedloom.registry.kinds import AGGREGATORS
from fedloom.reproduce.study import (
    Study,
    StudyFinding,
    StudyOutcome,
    StudyRequest,
    StudyTable,
    ahead_finding,
    mean_text,
)
from fedloom.runs.plans.plan import Member, folder_name
from fedloom.runs.results.history import History

CLIENTS, ROUNDS, STEPS = 30, 12, 8
ALIKE, DIFFERENT = 100.0, 0.3
"""Dirichlet's alpha of clients that are alike, and of clients that differ."""
RULES = tuple(name for name in AGGREGATORS.builtin if name not in ("privatemean", "nnm", "pca"))
"""The rules that make a row by themselves."""
SCORE = "global_model/global_test/accuracy"


@dataclass(frozen=True)
class Threat:
    """An attack by a share of the clients; by none where it has no name."""

    attack: str = ""
    share: float = 0.0
    z: float | None = None

    @property
    def label(self) -> str:
        """What tables call it."""
        if not self.attack:
            return "none"
        return f"{self.attack}{'' if self.z is None else f' z={self.z:g}'} {100 * self.share:.0f} %"

    @property
    def config(self) -> dict[str, Any]:
        """Its sections of a run's config."""
        if not self.attack:
            return {}
        strength = {} if self.z is None else {"z": self.z}
        return {"adversary": {"name": self.attack, "fraction": self.share, **strength}}


SHARES = (0.1, 0.2, 0.3)
THREATS = (
    Threat(),
    *(Threat("signflipping", share) for share in SHARES),
    *(Threat("alie", share) for share in SHARES),
    Threat("alie", 0.2, 1.5),
)
"""The last goes farther than the paper's formula allows: 1.5 standard deviations."""


@dataclass(frozen=True)
class Defence:
    """A rule, with the number of clients that are averaged before it sees them."""

    rule: str
    bucket: int = 1

    @property
    def label(self) -> str:
        """What tables call it."""
        return self.rule if self.bucket == 1 else f"{self.rule}, bucket {self.bucket}"

    def config(self, threat: Threat, rows: int = CLIENTS) -> dict[str, Any] | None:
        """Its section of a run's config; None if it cannot withstand a threat.

        Args:
            rows: How many rows it gets in a round.
        """
        kind = AGGREGATORS[self.rule]
        settings: dict[str, Any] = {"share": threat.share or SHARES[0]} if issubclass(kind, ShareRule) else {}
        settings |= {"bucket": self.bucket} if self.bucket > 1 else {}
        try:
            needs = kind(**settings).least_clients
        except FedloomError:
            return None
        return {"name": self.rule, **settings} if needs <= rows else None


BUCKETED = tuple(
    Defence(name, 2)
    for name in ("median", "trimmedmean", "geometricmedian", "krum", "multikrum", "bulyan", "centredclipping", "dnc")
)
DEFENCES = {ALIKE: tuple(map(Defence, RULES)), DIFFERENT: (*map(Defence, RULES), *BUCKETED)}
"""The defences that are tried, by alpha."""
Values = Mapping[tuple[float, Defence, Threat], Sequence[float]]
"""The accuracy of each seed."""


def _members(_: StudyRequest) -> list[Member]:
    return [member for _, member in _cells()]


def _cells() -> Iterator[tuple[tuple[float, Defence, Threat], Member]]:
    """The runs, each with its cell of the tables."""
    for alpha, defences in DEFENCES.items():
        for defence in defences:
            for threat in THREATS:
                rule = defence.config(threat)
                if rule is not None:
                    label = f"alpha {alpha:g}, {defence.label}, {threat.label}"
                    values = _setting(alpha) | threat.config | {"aggregation": rule}
                    yield (alpha, defence, threat), Member(label, folder_name(label), values)


def _setting(alpha: float) -> dict[str, Any]:
    return {
        "task": {
            "name": "mnist",
            "clients": CLIENTS,
            "partition": {"name": "dirichlet", "alpha": alpha},
            "model": "mlp",
            "model_options": {"hidden": [16]},
            "test_share": 0.05,
            "communal_per_class": 10,
        },
        "method": {"name": "fedavg"},
        "local": {"steps": STEPS, "batch_size": 32, "lr": 0.2},
        "rounds": ROUNDS,
        "eval_every": ROUNDS,
        "checkpoint_every": ROUNDS,
    }


def _run(request: StudyRequest) -> StudyOutcome:
    histories = request.run(_members(request))
    values: Values = {cell: [_last_score(run) for run in histories[member.label]] for cell, member in _cells()}
    plain = {member.label: values[cell] for cell, member in _cells()}
    note = (
        f"FedAvg on MNIST, {CLIENTS} clients, {ROUNDS} rounds of {STEPS} steps: accuracy of the shared model on the "
        f"test set, mean ± standard deviation over {request.seeds} seeds; – is refused. ALIE goes as far as the "
        "formula of its paper says, unless z is named."
    )
    tables = [rule_table(alpha, values) for alpha in DEFENCES]
    title = "Robust rules against sign flipping and ALIE"
    return StudyOutcome("robust-rules", title, tuple(tables), tuple(findings(values)), (note,), {"values": plain})


def _last_score(history: History) -> float:
    return history.series(SCORE)[1][-1]


def rule_table(alpha: float, values: Values) -> StudyTable:
    """Accuracies in points: a row per defence, a column per threat."""
    rows = []
    for defence in DEFENCES[alpha]:
        cells = [values.get((alpha, defence, threat)) for threat in THREATS]
        rows.append((defence.label, *("–" if cell is None else mean_text(cell) for cell in cells)))
    return StudyTable(f"alpha {alpha:g}: accuracy (%)", ("rule", *(threat.label for threat in THREATS)), tuple(rows))


def findings(values: Values) -> list[StudyFinding]:
    """What the papers say of rules, attacks and buckets, and what holds here."""
    nobody, flips, alie = THREATS[0], Threat("signflipping", 0.2), Threat("alie", 0.2, 1.5)
    mean, robust = Defence("mean"), [Defence(name) for name in RULES if name != "mean"]

    def above(says: str, one: tuple[float, Defence, Threat], other: tuple[float, Defence, Threat]) -> StudyFinding:
        ours = f"{mean_text(values[one])} and {mean_text(values[other])}"
        return ahead_finding(says, ours, values[one], values[other])

    found = [
        above(
            f"Clients that are alike, 20 % flip signs: {rule.label} is above the mean.",
            (ALIKE, rule, flips),
            (ALIKE, mean, flips),
        )
        for rule in robust
    ]
    found += [
        above(
            f"Clients that differ, nobody hostile: {rule.label} is below the mean.",
            (DIFFERENT, mean, nobody),
            (DIFFERENT, rule, nobody),
        )
        for rule in robust
    ]
    found += [
        _loses_more_finding(values, alpha, Defence(name), alie)
        for alpha in DEFENCES
        for name in ("median", "trimmedmean", "krum", "bulyan")
    ]
    for threat in (nobody, flips):
        found += [
            above(
                f"Clients that differ, {threat.label}: buckets of two help {wide.rule}.",
                (DIFFERENT, wide, threat),
                (DIFFERENT, Defence(wide.rule), threat),
            )
            for wide in BUCKETED
            if (DIFFERENT, wide, threat) in values
        ]
    return found


def _loses_more_finding(values: Values, alpha: float, rule: Defence, threat: Threat) -> StudyFinding:
    """ALIE's claim: a defence loses more by it than the plain mean."""
    lost = {}
    for defence in (rule, Defence("mean")):
        honest, attacked = values[alpha, defence, THREATS[0]], values[alpha, defence, threat]
        lost[defence] = [one - other for one, other in zip(honest, attacked, strict=True)]
    one, other = lost.values()
    says = f"alpha {alpha:g}, {threat.label}: {rule.label} loses more than the mean."
    return ahead_finding(says, f"{100 * fmean(one):.1f} and {100 * fmean(other):.1f} points", one, other)


STUDIES = (
    Study(
        "robust-rules",
        "all robust rules against sign flipping and ALIE, on MNIST (717 runs, 20 minutes)",
        _run,
        _members,
    ),
)
