"""The study of label flipping: its tables are those of the document, and it runs from beginning to end."""

from __future__ import annotations

import pytest

from fedloom.reproduce.fedseq_flipping_runs import BASELINE, FEDSEQ, FlippingCell, SwapScores, cells, swapped_classes
from fedloom.reproduce.fedseq_flipping_study import defence_table, gap_table, mean_table, share_table
from fedloom.reproduce.studies import STUDIES
from fedloom.reproduce.study import BASELINE as BASELINE_ROW
from fedloom.reproduce.study import StudyRequest, run_study


def made_up(data):
    """FedSeq is 8 points ahead where nobody is hostile, and a tenth of L less where somebody is."""
    classes = dict.fromkeys(swapped_classes(data), 0.4)
    found = {}
    for cell, _ in cells(data):
        ahead = (0.08 - 0.1 * cell.share) * (cell.method == FEDSEQ)
        found[cell] = [SwapScores(0.5 + ahead, classes, 0.3 + ahead)] * 3
    return found | {BASELINE: [SwapScores(0.1, dict.fromkeys(classes, 0.0) | {0: 1.0})] * 3}


def row_of(table, name):
    return dict(zip(table.columns, next(row for row in table.rows if row[0] == name), strict=True))


def test_table_5_7_has_means_over_l_beside_the_documents():
    row = row_of(mean_table(made_up("cifar10"), "cifar10"), "5-3, fixed")
    assert row["FedAvg"] == "50.0 ± 0.0 / 30.0 ± 0.0"
    assert row["FedAvg, document"] == "65.93 / 41.50"
    assert row["FedSeq"] == "55.0 ± 0.0 / 35.0 ± 0.0", "0.08 less a tenth of 0.3, the mean of L"
    assert row["FedSeq, document"] == "74.66 / 52.54"


def test_table_5_8_has_the_gap_for_each_l_beside_the_documents():
    table = gap_table(made_up("cifar100"), "cifar100")
    assert row_of(table, "0")["ours"] == "8.0 ± 0.0 / 0.0 ± 0.0"
    assert row_of(table, "0.5")["ours"] == "3.0 ± 0.0 / 3.0 ± 0.0"
    assert (row_of(table, "0")["document"], row_of(table, "0.3")["document"]) == ("11.22 / –", "10.50 / 8.60")


@pytest.mark.parametrize("data", STUDIES["fedseq-flipping"].data)
def test_every_table_is_whole_and_has_the_baseline(data):
    for table in (mean_table, gap_table, share_table, defence_table):
        made = table(made_up(data), data)
        assert all(len(row) == len(made.columns) for row in made.rows)
        assert made.rows[-1][0].startswith(BASELINE_ROW)


def test_the_baseline_of_swapped_classes_is_one_of_them_or_none():
    table = share_table(made_up("cifar10"), "cifar10")
    assert row_of(table, f"{BASELINE_ROW}, 0-2")["L = 0.5"] == "10.0 ± 0.0 / 50.0 ± 0.0", "one of two classes is right"
    assert row_of(table, f"{BASELINE_ROW}, 5-3")["L = 0"] == "10.0 ± 0.0 / 0.0 ± 0.0"


def test_what_a_rule_refuses_is_empty():
    row = row_of(defence_table(made_up("cifar10"), "cifar10"), "FedSeq, krum")
    assert (row["L = 0.5"], row["L = 0.3"]) == ("–", "55.0 ± 0.0 / 35.0 ± 0.0")


@pytest.mark.slow
def test_the_study_runs_from_beginning_to_end(tmp_path):
    """One round of every run on the small digits, which have all classes of the lists."""
    short = ("task.name=digits", "rounds=1", "eval_every=1", "checkpoint_every=1")
    study = STUDIES["fedseq-flipping"]
    outcome = run_study(study, StudyRequest(1, tmp_path / "study", data="cifar10", settings=short))
    assert len(outcome.values) == len(study.members(StudyRequest(1, tmp_path))) + 1
    assert 0 < outcome.values[FlippingCell(FEDSEQ).label][0]["everything"] < 1
    assert 0 <= outcome.values[FlippingCell(FEDSEQ).label][0]["classes"][5] <= 1
