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
    BASELINE,
    Study,
    StudyFinding,
    StudyOutcome,
    StudyRequest,
    StudyTable,
    ahead_finding,
    baseline_score,
    gaps_of,
    mean_text,
)
from fedloom.runs.plans.members import Member, folder_name
from fedloom.runs.results.history import History

CLIENTS, ROUNDS, STEPS = 30, 12, 8
ALIKE, DIFFERENT = 100.0, 0.3
"""Dirichlet's alpha of clients that are alike, and of clients that differ."""
RULES = tuple(name for name in AGGREGATORS.builtin if name not in ("privatemean", "nnm", "pca", "servertraining"))
"""The rules that make a row by themselves."""
SCORE = "global_model/global_test/accuracy"


@dataclass(frozen=True)
class Threat:
    """An attack by a share of the clients; by none where it has no name."""

    attack: str = ""
    share: float = 0.0
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def label(self) -> str:
        """What tables call it."""
        if not self.attack:
            return "none"
        return " ".join([self.attack, *(f"{key}={value}" for key, value in self.settings), f"{100 * self.share:.0f} %"])

    @property
    def config(self) -> dict[str, Any]:
        """Its sections of a run's config."""
        if not self.attack:
            return {}
        return {"adversary": {"name": self.attack, "fraction": self.share, **dict(self.settings)}}


SHARES = (0.1, 0.2, 0.3)
THREATS = (
    Threat(),
    *(Threat("signflipping", share) for share in SHARES),
    *(Threat("alie", share) for share in SHARES),
    Threat("alie", 0.2, (("z", 1.5),)),
)
"""The last goes farther than the paper's formula allows: 1.5 standard deviations."""


@dataclass(frozen=True)
class Defence:
    """A rule, with what is done before it: by another rule, or by averaging some clients.

    Args:
        bucket: How many clients are averaged before the rule sees them.
        before: The rule before it.
    """

    rule: str
    bucket: int = 1
    before: str = ""

    @property
    def label(self) -> str:
        """What tables call it."""
        rules = f"{self.before} + {self.rule}" if self.before else self.rule
        return rules if self.bucket == 1 else f"{rules}, bucket {self.bucket}"

    def config(self, threat: Threat, rows: int = CLIENTS) -> dict[str, Any] | list[dict[str, Any]] | None:
        """Its section of a run's config; None if it cannot withstand a threat.

        Args:
            rows: How many rows it gets in a round.
        """
        last = _rule_config(self.rule, threat, rows, {"bucket": self.bucket} if self.bucket > 1 else {})
        if last is None or not self.before:
            return last
        first = _rule_config(self.before, threat, rows, {})
        return None if first is None else [first, last]


def _rule_config(name: str, threat: Threat, rows: int, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """The section of one rule; None if it cannot withstand a threat."""
    kind = AGGREGATORS[name]
    share: dict[str, Any] = {"share": threat.share or SHARES[0]} if issubclass(kind, ShareRule) else {}
    try:
        needs = kind(**share, **settings).least_clients
    except FedloomError:
        return None
    return {"name": name, **share, **settings} if needs <= rows else None


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
                    values = setting_of(alpha) | threat.config | {"aggregation": rule}
                    yield (alpha, defence, threat), Member(label, folder_name(label), values)


def setting_of(alpha: float) -> dict[str, Any]:
    """The task, the method and the length of a run.

    Args:
        alpha: Dirichlet's alpha: how alike clients are.
    """
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
    baseline = [baseline_score(run, SCORE) for run in next(iter(histories.values()))]
    tables = [rule_table(alpha, values, baseline) for alpha in DEFENCES]
    title = "Robust rules against sign flipping and ALIE"
    return StudyOutcome("robust-rules", title, tuple(tables), tuple(findings(values)), (note,), {"values": plain})


def _last_score(history: History) -> float:
    return history.series(SCORE)[1][-1]


def rule_table(alpha: float, values: Values, baseline: Sequence[float]) -> StudyTable:
    """Accuracies in points: a row per defence, and one of the baseline; a column per threat.

    Args:
        alpha: How alike clients are.
        values: What was measured.
        baseline: What the baseline scores with each seed.
    """
    rows = []
    for defence in DEFENCES[alpha]:
        cells = [values.get((alpha, defence, threat)) for threat in THREATS]
        rows.append((defence.label, *("–" if cell is None else mean_text(cell) for cell in cells)))
    rows.append((BASELINE, *[mean_text(baseline)] * len(THREATS)))
    return StudyTable(f"alpha {alpha:g}: accuracy (%)", ("rule", *(threat.label for threat in THREATS)), tuple(rows))


def findings(values: Values) -> list[StudyFinding]:
    """What the papers say of rules, attacks and buckets, and what holds here."""
    nobody, flips, alie = THREATS[0], Threat("signflipping", 0.2), THREATS[-1]
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
        loses_more_finding(
            f"alpha {alpha:g}, {alie.label}: {name} loses more than the mean.",
            *([values[alpha, rule, threat] for rule in (Defence(name), mean)] for threat in (nobody, alie)),
        )
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


def loses_more_finding(
    says: str, honest: Sequence[Sequence[float]], attacked: Sequence[Sequence[float]]
) -> StudyFinding:
    """The finding that one rule loses more by an attack than another.

    Args:
        says: The finding.
        honest: What each of the two scores without an attack, by seed.
        attacked: What each of them scores with it.
    """
    one, other = (gaps_of(*both) for both in zip(honest, attacked, strict=True))
    return ahead_finding(says, f"{100 * fmean(one):.1f} and {100 * fmean(other):.1f} points", one, other)


STUDIES = (
    Study(
        "robust-rules",
        "all robust rules against sign flipping and ALIE, on MNIST (717 runs, 20 minutes)",
        _run,
        _members,
    ),
)
