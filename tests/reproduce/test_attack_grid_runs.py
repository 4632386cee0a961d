"""The grid of attacks and rules: how large it is, that every run is accepted, and its tables from made-up numbers."""

import pytest

from fedloom.config.resolve import resolve
from fedloom.registry.kinds import ATTACKS as ALL_ATTACKS
from fedloom.reproduce.attack_grid_runs import (
    ATTACKS,
    BACKDOOR,
    LEVELS,
    NOBODY,
    RULES,
    AttackGrid,
    accuracy_table,
    cells,
    ranking_table,
)
from fedloom.reproduce.robust_studies import ALIKE, CLIENTS, DIFFERENT, Defence
from fedloom.reproduce.robust_studies import RULES as ALONE

IPM = next(attack for attack in ATTACKS if attack.label == "IPM 10")
KRUM = Defence("krum")


@pytest.fixture
def grid():
    """Every rule has 90 % and 50 % under IPM, where clients differ; Krum has 20 % there."""
    accuracy = {cell: [0.5, 0.5, 0.5] if cell[2] == IPM else [0.9, 0.9, 0.9] for cell, _ in cells()}
    accuracy[DIFFERENT, KRUM, IPM] = [0.1, 0.2, 0.3]
    return AttackGrid(
        accuracy, {cell: [0.0, 0.0, 0.3] for cell, _ in cells() if cell[2] == BACKDOOR}, [0.11, 0.11, 0.11]
    )


def test_it_has_more_than_nine_attacks_and_eleven_rules_and_all_that_acts_through_clients():
    assert (len(ATTACKS), len(RULES), len(LEVELS)) == (11, 20, 2)
    assert {attack.name for attack in ATTACKS} == set(list(ALL_ATTACKS.builtin)[:10])
    assert {rule.rule for rule in RULES} == set(ALONE)


def test_its_runs_have_names_of_their_own_and_configs_that_are_accepted():
    members = [member for _, member in cells()]
    assert len({member.folder_name for member in members}) == len(members) == 11 * 20 * 2 + 20 * 2
    for member in members[::11]:
        assert resolve(dict(member.values)).aggregation.least_clients <= CLIENTS


def test_every_rule_expects_a_fifth_of_the_clients_also_where_nobody_attacks():
    krums = [member for (_, rule, attack), member in cells() if rule == KRUM and attack in (NOBODY, IPM)]
    assert [member.values["aggregation"]["share"] for member in krums] == [0.2] * 4
    assert ["adversary" in member.values for member in krums] == [False, True] * 2


def test_tables_have_a_column_per_attack_the_worst_of_them_and_the_baseline(grid):
    table = accuracy_table(DIFFERENT, grid)
    cells_of = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert cells_of["krum"]["IPM 10"] == "20.0 ± 10.0"
    assert cells_of["krum"]["worst"] == "20.0"
    assert cells_of["nnm + krum"]["worst"] == "50.0"
    assert cells_of["baseline: majority class"]["none"] == "11.0 ± 0.0"


def test_rules_are_ranked_by_their_worst_case_where_clients_differ(grid):
    table = ranking_table(grid)
    assert table.rows[-1] == ("krum", "20.0 ± 10.0", "IPM 10", "10.0 ± 17.3", "50.0 ± 0.0", "IPM 10", "10.0 ± 17.3")
    assert table.columns[1] == "alpha 0.3: worst (%)"


def test_what_holds_over_attacks_is_taken_seed_by_seed(grid):
    assert grid.worst_attack(ALIKE, KRUM) == IPM
    assert grid.worst(DIFFERENT, KRUM) == [0.1, 0.2, 0.3]
    assert grid.mean_over(DIFFERENT, KRUM, (IPM, BACKDOOR)) == pytest.approx([0.5, 0.55, 0.6])
