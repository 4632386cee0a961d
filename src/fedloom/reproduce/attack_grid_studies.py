"""The study of the grid of attacks and rules: its tables, and published orderings beside them.

The orderings are statements of papers, most of them from abstracts. Of Blades (Li et al., IoTDI 2024,
https://arxiv.org/abs/2206.05359) and ByzFL (González et al., 2025, https://arxiv.org/abs/2505.24802) themselves we had
no table of results to compare with. So this compares what their authors state elsewhere, of the experiments that Blades
grew from and of NNM, and what the papers of other rules and attacks state. They trained other networks on other data:
where an ordering does not hold here, that does not make it wrong there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from fedloom.reproduce.attack_grid_runs import (
    ATTACKS,
    LEVELS,
    NOBODY,
    RULES,
    AttackGrid,
    GridAttack,
    accuracy_table,
    cells,
    play_grid,
    ranking_table,
)
from fedloom.reproduce.robust_studies import CLIENTS, DIFFERENT, ROUNDS, STEPS, Defence, loses_more_finding
from fedloom.reproduce.study import (
    Study,
    StudyFinding,
    StudyOutcome,
    StudyRequest,
    StudyTable,
    ahead_finding,
    mean_text,
)
from fedloom.runs.plans.members import Member

MEAN = Defence("mean")
PLAIN = tuple(rule for rule in RULES if rule.bucket == 1 and not rule.before and rule != MEAN)
"""The robust rules by themselves."""
MIXED = tuple(rule for rule in RULES if rule.before == "nnm")
BY_LABEL = {attack.label: attack for attack in ATTACKS}
OF_MODELS = tuple(BY_LABEL[one] for one in ("sign flips", "noise", "ALIE", "IPM 0.5", "IPM 10", "min-max", "min-sum"))
"""The attacks on what clients send, and not on their data."""
TAILORED = (BY_LABEL["min-max"], BY_LABEL["min-sum"])
CONSIDERABLE = 0.1
"""A rule that is so much below the mean without any attacker fails."""


def _worse_where_clients_differ(grid: AttackGrid) -> Iterator[StudyFinding]:
    for rule in PLAIN:
        alike, different = (grid.mean_over(alpha, rule, ATTACKS) for alpha in LEVELS)
        says = f"{rule.label}, mean over all attacks: clients that are alike are above clients that differ."
        yield _ahead(says, alike, different)


def _fails_without_attackers(grid: AttackGrid) -> Iterator[StudyFinding]:
    """The weakest rule, which is enough for a statement of some."""
    weakest = min(PLAIN, key=lambda rule: fmean(grid.accuracy[DIFFERENT, rule, NOBODY]))
    one, other = (grid.accuracy[DIFFERENT, rule, NOBODY] for rule in (MEAN, weakest))
    says = f"Clients that differ, nobody hostile: the mean is more than 10 points above {weakest.label}."
    yield _ahead(says, one, other, CONSIDERABLE)


def _mixing_helps(grid: AttackGrid) -> Iterator[StudyFinding]:
    for rule in MIXED:
        yield _worst_is_above(grid, rule, Defence(rule.rule))


def _mixing_helps_more_than_buckets(grid: AttackGrid) -> Iterator[StudyFinding]:
    for rule in MIXED:
        if Defence(rule.rule, 2) in RULES:
            yield _worst_is_above(grid, rule, Defence(rule.rule, 2))


def _buckets_help(grid: AttackGrid) -> Iterator[StudyFinding]:
    for rule in RULES:
        if rule.bucket > 1:
            yield _worst_is_above(grid, rule, Defence(rule.rule))


def _worst_is_above(grid: AttackGrid, rule: Defence, other: Defence) -> StudyFinding:
    says = f"Clients that differ, worst case: {rule.label} is above {other.label}."
    return _ahead(says, grid.worst(DIFFERENT, rule), grid.worst(DIFFERENT, other))


def _dnc_is_above(grid: AttackGrid) -> Iterator[StudyFinding]:
    for alpha in LEVELS:
        best = grid.mean_over(alpha, Defence("dnc"), TAILORED)
        for name in ("krum", "multikrum", "bulyan", "trimmedmean", "median"):
            says = f"alpha {alpha:g}, mean over min-max and min-sum: dnc is above {name}."
            yield _ahead(says, best, grid.mean_over(alpha, Defence(name), TAILORED))


def _loses_more_by_alie(grid: AttackGrid) -> Iterator[StudyFinding]:
    for alpha in LEVELS:
        for name in ("krum", "trimmedmean", "bulyan"):
            honest, attacked = (
                [grid.accuracy[alpha, rule, attack] for rule in (Defence(name), MEAN)]
                for attack in (NOBODY, BY_LABEL["ALIE"])
            )
            yield loses_more_finding(f"alpha {alpha:g}, ALIE: {name} loses more than the mean.", honest, attacked)


def _best_against_attacks_on_models(grid: AttackGrid) -> Iterator[StudyFinding]:
    return _above_the_others(grid, ("median", "fltrust", "dnc"), OF_MODELS, "all attacks on models")


def _best_against_poisoned_data(grid: AttackGrid) -> Iterator[StudyFinding]:
    best = ("krum", "multikrum", "bulyan", "fltrust", "dnc")
    return _above_the_others(grid, best, (BY_LABEL["label flips"],), "label flips")


def _above_the_others(
    grid: AttackGrid, best: Sequence[str], attacks: Sequence[GridAttack], over: str
) -> Iterator[StudyFinding]:
    """That each of some rules is above the mean of the rules that are not among them."""
    for alpha in LEVELS:
        others = [grid.mean_over(alpha, rule, attacks) for rule in PLAIN if rule.rule not in best]
        usual = [fmean(one) for one in zip(*others, strict=True)]
        for name in best:
            says = f"alpha {alpha:g}, {over}: {name} is above the mean of the rules that are not named."
            yield _ahead(says, grid.mean_over(alpha, Defence(name), attacks), usual)


def _ahead(says: str, one: Sequence[float], other: Sequence[float], by: float = 0.0) -> StudyFinding:
    return ahead_finding(says, f"{mean_text(one)} and {mean_text(other)}", one, other, by)


BLADES, BYZFL = "Li, Ngai and Voigt 2023 (Blades' authors)", "Allouah et al. 2023 (ByzFL's authors)"
SURVEY = "Zhang et al. 2025 (FLPoison)"
PUBLISHED: tuple[tuple[str, str, Callable[[AttackGrid], Iterator[StudyFinding]]], ...] = (
    (BLADES, "where clients differ, all rules get much worse", _worse_where_clients_differ),
    (BLADES, "some rules fail there without any attacker", _fails_without_attackers),
    (BYZFL, "where clients differ, NNM helps any rule", _mixing_helps),
    (BYZFL, "NNM is better than what there was, such as buckets", _mixing_helps_more_than_buckets),
    ("Karimireddy, He and Jaggi 2022", "where clients differ, buckets help", _buckets_help),
    ("Shejwalkar and Houmansadr 2021", "DnC is best against min-max and min-sum", _dnc_is_above),
    ("Baruch, Baruch and Goldberg 2019", "ALIE costs a defence more than the mean", _loses_more_by_alie),
    (SURVEY, "median, FLTrust and DnC are best against attacks on models", _best_against_attacks_on_models),
    (
        SURVEY,
        "Krum, Multi-Krum, Bulyan, FLTrust and DnC are best against poisoned data",
        _best_against_poisoned_data,
    ),
)
"""Papers, what they state of these rules and attacks, and the findings here that it comes to: one for each rule."""


def published_table(findings: Sequence[Sequence[StudyFinding]]) -> StudyTable:
    """How often each published ordering holds, does not, and is not decided.

    Args:
        findings: Those of each of ``PUBLISHED``.
    """
    rows = []
    for (paper, states, _), found in zip(PUBLISHED, findings, strict=True):
        marks = [finding.mark for finding in found]
        rows.append((paper, states, *(str(marks.count(mark)) for mark in ("✓", "✗", "–"))))
    return StudyTable("Published orderings", ("paper", "states", "✓", "✗", "– (within noise)"), tuple(rows))


def _members(_: StudyRequest) -> list[Member]:
    return [member for _, member in cells()]


def _run(request: StudyRequest) -> StudyOutcome:
    grid = play_grid(request)
    note = (
        f"FedAvg on MNIST, {CLIENTS} clients, a fifth of them hostile, {ROUNDS} rounds of {STEPS} steps: accuracy of "
        f"the shared model on the test set, mean ± standard deviation over {request.seeds} seeds. The worst case of a "
        "rule is the attack with the lowest mean."
    )
    found = [list(findings_of(grid)) for *_, findings_of in PUBLISHED]
    tables = (*(accuracy_table(alpha, grid) for alpha in LEVELS), ranking_table(grid), published_table(found))
    findings = tuple(finding for some in found for finding in some)
    values = {member.label: grid.accuracy[cell] for cell, member in cells()}
    return StudyOutcome("attack-grid", "Attacks and rules", tables, findings, (note,), {"values": values})


STUDIES = (
    Study(
        "attack-grid",
        "11 attacks against 20 rules where clients are alike and where they differ, on MNIST (2,400 runs, 15 minutes)",
        _run,
        _members,
        seeds=5,
    ),
)
