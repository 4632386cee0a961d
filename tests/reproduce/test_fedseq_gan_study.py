"""The study of GAN attacks: what is compared at equal accuracy, and findings that follow the numbers."""

from __future__ import annotations

from math import isnan, nan

import pytest

from fedloom.reproduce.fedseq_gan_runs import ADDED, CONTROL, FEDAVG, FEDSEQ, AttackScores, VisitScore, gan_cells
from fedloom.reproduce.fedseq_gan_study import (
    band_table,
    equal_accuracy,
    fid_in,
    gan_findings,
    last_until,
    lower_finding,
    round_table,
)
from fedloom.reproduce.study import BASELINE


def attack(*visits, own=30.0):
    """Scores of a run from (round, accuracy, FID) of its visits."""
    return AttackScores(tuple(VisitScore(*one, 0.5) for one in visits), 0.9, 0.1, own, 1.0, 80.0)


def made_up(better=0.0):
    """FedAvg's FID is lower by 10 and some more, whatever the judge is; what it has learnt helps by ``better``."""
    found = {}
    for (method, variant), _ in gan_cells():
        ahead = 10 * (method == FEDSEQ) - better * (variant != CONTROL)
        found[method, variant] = [
            attack((5, 0.4, 60 + ahead + seed), (15, 0.7, 50 + ahead), (25, 0.85, 40 + ahead)) for seed in range(3)
        ]
    return found


def test_fid_is_taken_where_the_judge_has_an_accuracy():
    visits = attack((1, 0.3, 9.0), (2, 0.59, 7.0), (3, 0.6, 5.0), (4, 1.0, 1.0)).visits
    assert fid_in(visits, 0.3, 0.6) == 8.0
    assert fid_in(visits, 0.6, 0.8) == 5.0
    assert fid_in(visits, 0.9, 1.0) == 1.0, "the last band has its upper bound"
    assert isnan(fid_in(visits, 0.8, 0.9))


def test_runs_are_compared_in_the_bands_that_both_have_whatever_the_round():
    slow = attack((10, 0.4, 40.0), (20, 0.7, 30.0))
    fast = attack((1, 0.7, 60.0), (2, 0.95, 10.0))
    assert equal_accuracy(slow, fast) == (30.0, 60.0)
    assert all(map(isnan, equal_accuracy(slow, attack((1, 0.95, 1.0)))))


def test_the_state_at_a_round_is_that_of_the_last_visit():
    visits = attack((3, 0.4, 40.0), (9, 0.7, 30.0)).visits
    assert last_until(visits, 8).fid == 40.0
    assert last_until(visits, 9).fid == 30.0
    assert isnan(last_until(visits, 2).fid)


@pytest.mark.parametrize(("better", "helps"), [(5.0, True), (-5.0, False)])
def test_findings_follow_the_numbers(better, helps):
    found = {one.says: one.holds for one in gan_findings(made_up(better))}
    assert found[f"{ADDED}: at equal accuracy FedAvg's FID is lower than FedSeq's."] is True
    assert found[f"Control, {CONTROL}: at equal accuracy FedAvg's FID is lower than FedSeq's."] is True
    says = f"Control, {FEDAVG}: what the judge has learnt helps ({ADDED} has a lower FID than {CONTROL})."
    assert found[says] is helps


def test_a_lower_fid_is_told_with_its_difference_and_a_missing_one_is_not_judged():
    one = lower_finding("A.", [10.0, 12.0, 11.0], [20.0, 22.5, 21.5])
    assert (one.holds, one.ours) == (True, "11.0 ± 1.0 and 21.3 ± 1.3: +10.3 ± 0.2.")
    missing = lower_finding("A.", [10.0, nan, 11.0], [20.0, 21.5, 21.5])
    assert (missing.holds, missing.ours[:20]) == (None, "not testable here: a")


def test_tables_are_whole_and_have_what_needs_no_attack():
    results = made_up()
    for table in (band_table(results), round_table(results)):
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert table.rows[-1][0].startswith(BASELINE)
    rows = {row[0]: row for row in band_table(results).rows}
    assert rows["FedSeq, added output"][1:5] == ("71.0 ± 1.0", "60.0 ± 0.0", "50.0 ± 0.0", "–")
    assert rows["the attacker's own images"][1] == "30.0 ± 0.0"
    assert round_table(results).rows[0][2] == "70.0 ± 0.0 / 50.0 ± 0.0"
