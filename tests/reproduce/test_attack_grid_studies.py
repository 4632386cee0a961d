"""Published orderings beside the grid: they follow the numbers, and what is within noise is not decided."""

import pytest

from fedloom.reproduce.attack_grid_runs import ATTACKS, BACKDOOR, LEVELS, RULES, AttackGrid, cells
from fedloom.reproduce.attack_grid_studies import PUBLISHED, published_table
from fedloom.reproduce.robust_studies import DIFFERENT, Defence
from fedloom.reproduce.studies import STUDIES
from fedloom.reproduce.study import StudyRequest

ALIE = next(attack for attack in ATTACKS if attack.label == "ALIE")
KRUM = Defence("krum")


def grid_of(**changed):
    """All cells alike but for noise, and some as they are given."""
    accuracy = {cell: [0.80, 0.81, 0.79] for cell, _ in cells()}
    for cell in accuracy:
        alpha, rule, attack = cell
        if alpha == DIFFERENT and rule == KRUM:
            accuracy[cell] = changed.get("krum", accuracy[cell])
        if rule == Defence("dnc") and attack.label in ("min-max", "min-sum"):
            accuracy[cell] = changed.get("dnc", accuracy[cell])
    return AttackGrid(accuracy, {cell: [0.0] * 3 for cell, _ in cells() if cell[2] == BACKDOOR}, [0.1] * 3)


def marks(grid, states):
    (findings_of,) = (found for _, said, found in PUBLISHED if said == states)
    return {finding.says: finding.mark for finding in findings_of(grid)}


@pytest.mark.parametrize(
    ("krum", "mark"), [([0.5, 0.51, 0.49], "✓"), ([0.95, 0.96, 0.94], "✗"), ([0.9, 0.5, 0.9], "–")]
)
def test_a_rule_without_attackers_and_what_helps_it_follow_the_numbers(krum, mark):
    grid = grid_of(krum=krum)
    helps = marks(grid, "where clients differ, NNM helps any rule")
    assert helps["Clients that differ, worst case: nnm + krum is above krum."] == mark
    worse = marks(grid, "where clients differ, all rules get much worse")
    assert worse["krum, mean over all attacks: clients that are alike are above clients that differ."] == mark


def test_a_rule_that_fails_without_attackers_is_more_than_ten_points_below_the_mean():
    said = "some rules fail there without any attacker"
    assert list(marks(grid_of(krum=[0.5, 0.51, 0.49]), said).values()) == ["✓"]
    assert list(marks(grid_of(krum=[0.75, 0.76, 0.74]), said).values()) == ["✗"]


@pytest.mark.parametrize(("dnc", "mark"), [([0.9, 0.91, 0.89], "✓"), ([0.7, 0.71, 0.69], "✗")])
def test_dnc_is_compared_with_each_other_rule_of_its_paper_at_both_levels(dnc, mark):
    found = marks(grid_of(dnc=dnc), "DnC is best against min-max and min-sum")
    assert list(found.values()) == [mark] * 5 * len(LEVELS)


def test_a_loss_by_alie_is_held_against_the_mean_s():
    grid = grid_of()
    grid.accuracy[DIFFERENT, KRUM, ALIE] = [0.5, 0.51, 0.49]
    found = marks(grid, "ALIE costs a defence more than the mean")
    assert found["alpha 0.3, ALIE: krum loses more than the mean."] == "✓"
    assert "✓" not in [mark for says, mark in found.items() if "krum" not in says or "100" in says]


def test_the_table_counts_what_holds_what_does_not_and_what_is_noise():
    grid = grid_of(krum=[0.5, 0.51, 0.49])
    found = [list(findings_of(grid)) for *_, findings_of in PUBLISHED]
    table = published_table(found)
    assert len(table.rows) == len(PUBLISHED)
    for row, findings in zip(table.rows, found, strict=True):
        assert sum(int(number) for number in row[2:]) == len(findings) > 0


def test_the_study_plans_a_run_for_every_cell(tmp_path):
    members = STUDIES["attack-grid"].members(StudyRequest(1, tmp_path))
    assert len(members) == len(RULES) * (len(ATTACKS) + 1) * len(LEVELS)
