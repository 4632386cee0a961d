"""The study of robust rules: its runs, its empty cells, and its tables and findings from made-up numbers."""

from __future__ import annotations

import pytest

from fedloom.config.resolve import resolve
from fedloom.reproduce.robust_studies import (
    ALIKE,
    BUCKETED,
    CLIENTS,
    DEFENCES,
    DIFFERENT,
    THREATS,
    Defence,
    Threat,
    findings,
    rule_table,
)
from fedloom.reproduce.studies import STUDIES
from fedloom.reproduce.study import StudyRequest

ALL = {
    (alpha, defence, threat): [0.9, 0.85, 0.8]
    for alpha, defences in DEFENCES.items()
    for defence in defences
    for threat in THREATS
    if defence.config(threat) is not None
}


def test_the_runs_have_names_of_their_own_and_configs_that_are_accepted(tmp_path):
    members = STUDIES["robust-rules"].members(StudyRequest(1, tmp_path))
    assert len({m.folder_name for m in members}) == len({m.label for m in members}) == len(members) == len(ALL)
    for member in members[::7]:
        config = resolve(dict(member.values))
        assert config.aggregation.least_clients <= CLIENTS


def test_a_rule_is_told_the_truth_and_what_it_cannot_bear_is_left_out():
    assert Defence("krum").config(Threat("alie", 0.3)) == {"name": "krum", "share": 0.3}
    assert Defence("krum").config(Threat()) == {"name": "krum", "share": 0.1}
    assert Defence("median").config(Threat("alie", 0.3)) == {"name": "median"}
    assert Defence("bulyan").config(Threat("alie", 0.3)) is None  # it bears less than a quarter
    assert Defence("krum", 2).config(Threat("alie", 0.3)) is None  # buckets count twice


def test_tables_have_a_row_per_rule_one_of_the_baseline_and_an_empty_cell_for_what_is_refused():
    table = rule_table(ALIKE, ALL, [0.1, 0.12])
    assert len(table.rows) - 1 == len(DEFENCES[ALIKE]) == len(DEFENCES[DIFFERENT]) - len(BUCKETED)
    assert set(table.rows[-1]) == {"baseline: majority class", "11.0 ± 1.4"}
    cells = dict(zip(table.columns, next(row for row in table.rows if row[0] == "bulyan"), strict=True))
    assert cells["alie 30 %"] == "–"
    assert cells["none"] == "85.0 ± 5.0"


@pytest.mark.parametrize(("better", "holds"), [(0.05, True), (-0.05, False)])
def test_findings_follow_the_numbers(better, holds):
    flips, krum = Threat("signflipping", 0.2), Defence("krum")
    values = {**ALL, (ALIKE, krum, flips): [0.9 + better, 0.85 + better, 0.8 + better]}
    found = {one.says: one.holds for one in findings(values)}
    assert found["Clients that are alike, 20 % flip signs: krum is above the mean."] is holds
