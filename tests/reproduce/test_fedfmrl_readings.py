"""The readings of equation 6.6 side by side: their runs are accepted, the table is whole, findings follow numbers."""

from __future__ import annotations

import pytest

from fedloom.config.resolve import method_from_config, resolve
from fedloom.reproduce.fedfmrl_readings import (
    LABELS,
    METHODS,
    RAW_ALL,
    SOFTMAX,
    SOFTMAX_ALL,
    reading_findings,
    reading_members,
    reading_table,
)
from fedloom.reproduce.fedfmrl_study_runs import FmrlResult
from fedloom.reproduce.study import BASELINE, StudyRequest


@pytest.fixture
def results(tmp_path):
    one = FmrlResult(0.9, 0.92, 1e4, baseline=0.1)
    return {member.label: [one] * 3 for member in reading_members(StudyRequest(1, tmp_path))}


def test_each_reading_is_a_run_of_its_own_for_each_beta(tmp_path):
    members = reading_members(StudyRequest(1, tmp_path))
    assert len({member.folder_name for member in members}) == len(members) == 2 * len(METHODS)
    methods = {member.label: method_from_config(resolve(dict(member.values))) for member in members}
    now, before = methods[f"beta 0.3, {SOFTMAX}"], methods[f"beta 0.3, {RAW_ALL}"]
    assert (now.alpha_loss, now.alpha_drawn) == ("softmax", "once")
    assert (before.alpha_loss, before.alpha_drawn) == ("raw", "every-step")
    assert methods[f"beta 0.3, {LABELS}"].communal_epochs == now.epochs


def test_the_table_has_a_row_per_reading_and_the_baseline(results):
    rows = {row[0]: row[1:] for row in reading_table(results).rows}
    assert list(rows) == [*METHODS, BASELINE]
    assert rows[BASELINE] == ("10.0 ± 0.0",) * 4
    assert rows[LABELS] == ("90.0 ± 0.0", "90.0 ± 0.0", "–", "–")


@pytest.mark.parametrize(("better", "holds"), [(0.05, True), (-0.05, False)])
def test_findings_follow_the_numbers(results, better, holds):
    results[f"beta 0.3, {SOFTMAX_ALL}"] = [FmrlResult(0.9 + better, 0.92, 1e4)] * 3
    found = {one.says: one.holds for one in reading_findings(results)}
    assert found["beta 0.3: softmax is above raw outputs (in every step)."] == holds
    assert found["beta 0.3: Control: learned alpha (in every step) is above communal labels alone."] == holds
    assert not found["beta 100: softmax is above raw outputs (in every step)."]
