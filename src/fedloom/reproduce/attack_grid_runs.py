"""A grid of attacks and rules: eleven attacks by a fifth of the clients, twenty rules, two levels of difference.

The task is that of ``robust-rules``: FedAvg on MNIST with 30 clients and a small network, so that a run takes a second.
Six clients are hostile, and every rule that needs their share gets it, also where nobody attacks: whoever defends does
not know. Attackers know as much as their papers allow; those of IPM, min-max and min-sum see what honest clients sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.reproduce.robust_studies import ALIKE, DIFFERENT, SCORE, Defence, Threat, setting_of
from fedloom.reproduce.study import BASELINE, StudyRequest, StudyTable, baseline_score, mean_text
from fedloom.runs.plans.members import Member, folder_name
from fedloom.runs.results.history import History

SHARE = 0.2
"""The share of hostile clients."""
KNOWS_ALL = ("knows", "all")


@dataclass(frozen=True)
class GridAttack:
    """An attack of the grid: what tables call it, and its settings."""

    label: str
    name: str = ""
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def threat(self) -> Threat:
        """The same by the grid's share of clients."""
        return Threat(self.name, SHARE, self.settings)


NOBODY = GridAttack("none")
ATTACKS = (
    GridAttack("label flips", "labelflipping"),
    GridAttack("sybils", "sybils"),
    GridAttack("sign flips", "signflipping", (("scale", 3.0),)),
    GridAttack("noise", "gaussiannoise", (("scale", 10.0),)),
    GridAttack("free riders", "freerider"),
    GridAttack("ALIE", "alie", (("z", 1.5),)),
    GridAttack("IPM 0.5", "ipm", (("scale", 0.5), KNOWS_ALL)),
    GridAttack("IPM 10", "ipm", (("scale", 10.0), KNOWS_ALL)),
    GridAttack("min-max", "minmax", (KNOWS_ALL,)),
    GridAttack("min-sum", "minsum", (KNOWS_ALL,)),
    GridAttack("backdoor", "backdoor", (("scale", 5.0), ("size", 4))),
)
"""Signs are flipped and tripled, noise is ten times as long as an update, IPM is weaker and stronger than what turns
the mean round (4 with a fifth of the clients), and a backdoor that is five times as large replaces the model."""
BACKDOOR = ATTACKS[-1]
RULES = (
    *map(Defence, ("mean", "median", "trimmedmean", "geometricmedian", "krum", "multikrum", "bulyan", "normbounding")),
    *map(Defence, ("centredclipping", "foolsgold", "fltrust", "dnc")),
    *(Defence(rule, before="nnm") for rule in ("trimmedmean", "geometricmedian", "krum")),
    *(Defence(rule, 2) for rule in ("median", "trimmedmean", "krum")),
    Defence("multikrum", before="foolsgold"),
    Defence("trimmedmean", before="pca"),
)
LEVELS = (ALIKE, DIFFERENT)
Cell = tuple[float, Defence, GridAttack]


@dataclass(frozen=True)
class AttackGrid:
    """What was measured: of each cell the accuracy of every seed, and of the backdoor its success."""

    accuracy: Mapping[Cell, Sequence[float]]
    success: Mapping[Cell, Sequence[float]]
    baseline: Sequence[float]

    def mean_over(self, alpha: float, rule: Defence, attacks: Sequence[GridAttack]) -> list[float]:
        """A rule's mean accuracy over some attacks, seed by seed."""
        columns = (self.accuracy[alpha, rule, attack] for attack in attacks)
        return [fmean(one) for one in zip(*columns, strict=True)]

    def worst_attack(self, alpha: float, rule: Defence) -> GridAttack:
        """The attack that leaves a rule the lowest accuracy."""
        return min(ATTACKS, key=lambda attack: fmean(self.accuracy[alpha, rule, attack]))

    def worst(self, alpha: float, rule: Defence) -> Sequence[float]:
        """A rule's accuracies under its worst attack."""
        return self.accuracy[alpha, rule, self.worst_attack(alpha, rule)]


def cells() -> Iterator[tuple[Cell, Member]]:
    """The runs, each with its cell of the grid."""
    for alpha in LEVELS:
        for rule in RULES:
            for attack in (NOBODY, *ATTACKS):
                aggregation = rule.config(attack.threat)
                if aggregation is None:
                    raise FedloomError(f"{rule.label} cannot withstand {SHARE:.0%} of the clients.")
                label = f"alpha {alpha:g}, {rule.label}, {attack.label}"
                values = setting_of(alpha) | attack.threat.config | {"aggregation": aggregation}
                yield (alpha, rule, attack), Member(label, folder_name(label), values)


def play_grid(request: StudyRequest) -> AttackGrid:
    """The runs of the grid, played or read."""
    histories = request.run([member for _, member in cells()])
    runs = {cell: histories[member.label] for cell, member in cells()}
    return AttackGrid(
        {cell: [_last(SCORE, run) for run in found] for cell, found in runs.items()},
        {
            cell: [_last("adversary/success", run) for run in found]
            for cell, found in runs.items()
            if cell[2] == BACKDOOR
        },
        [baseline_score(run, SCORE) for run in next(iter(runs.values()))],
    )


def _last(metric: str, history: History) -> float:
    return history.series(metric)[1][-1]


def accuracy_table(alpha: float, grid: AttackGrid) -> StudyTable:
    """Accuracies in points: a row per rule, a column per attack."""
    attacks = (NOBODY, *ATTACKS)
    rows = [
        (
            rule.label,
            *(mean_text(grid.accuracy[alpha, rule, attack]) for attack in attacks),
            _worst_text(alpha, rule, grid),
        )
        for rule in RULES
    ]
    rows.append((BASELINE, *[mean_text(grid.baseline)] * (len(attacks) + 1)))
    columns = ("rule", *(attack.label for attack in attacks), "worst")
    return StudyTable(f"alpha {alpha:g}: accuracy (%)", columns, tuple(rows))


def _worst_text(alpha: float, rule: Defence, grid: AttackGrid) -> str:
    return f"{100 * fmean(grid.worst(alpha, rule)):.1f}"


def ranking_table(grid: AttackGrid) -> StudyTable:
    """The rules by their worst case where clients differ, best first, with the attack that it is due to."""
    rows = []
    for rule in sorted(RULES, key=lambda rule: -fmean(grid.worst(DIFFERENT, rule))):
        found = [rule.label]
        for alpha in reversed(LEVELS):
            found += [
                mean_text(grid.worst(alpha, rule)),
                grid.worst_attack(alpha, rule).label,
                mean_text(grid.success[alpha, rule, BACKDOOR]),
            ]
        rows.append(tuple(found))
    columns = ("worst (%)", "by", "backdoor's success (%)")
    levels = [f"alpha {alpha:g}: {column}" for alpha in reversed(LEVELS) for column in columns]
    return StudyTable("Rules by their worst case", ("rule", *levels), tuple(rows))
