"""The studies of FedRCIL: their runs are accepted, tables are complete, and findings follow the numbers."""

from __future__ import annotations

from math import nan

import pytest

from fedloom.config.resolve import method_from_config, resolve
from fedloom.reproduce.fedrcil_studies import (
    FINE_TUNING,
    JOINT,
    MULTI_LOSS,
    multi_loss_findings,
    multi_loss_members,
    multi_loss_table,
    skew_findings,
    skew_members,
    skew_table,
    stream_findings,
    stream_members,
    stream_table,
)
from fedloom.reproduce.fedrcil_study_runs import StreamResult
from fedloom.reproduce.studies import STUDIES
from fedloom.reproduce.study import BASELINE, StudyRequest, run_study

NAMES = ("fedrcil-stream", "fedrcil-multiloss", "fedrcil-beta")


def made_up(members, tmp_path, accuracy=0.5, forgetting=0.2):
    one = StreamResult(accuracy, forgetting, (0.9, 0.8, 0.7, 0.6, accuracy), 2e5, 0.1)
    return {member.label: [one] * 3 for member in members(StudyRequest(1, tmp_path))}


@pytest.mark.parametrize("name", NAMES)
def test_the_runs_have_names_of_their_own_and_configs_that_are_accepted(tmp_path, name):
    members = STUDIES[name].members(StudyRequest(1, tmp_path))
    assert len({m.folder_name for m in members}) == len({m.label for m in members}) == len(members)
    for member in members:
        assert method_from_config(resolve(dict(member.values))) is not None


def test_joint_training_keeps_the_images_of_earlier_tasks(tmp_path):
    values = {member.label: member.values for member in stream_members(StudyRequest(1, tmp_path))}
    assert values[JOINT]["task"]["stream"]["cumulative"]
    assert not values[FINE_TUNING]["task"]["stream"]["cumulative"]


def test_where_classes_differ_there_are_as_many_exemplars_as_the_authors_have_with_labels_and_without(tmp_path):
    members = {member.label: member.values["method"] for member in skew_members(StudyRequest(1, tmp_path))}
    printed, labelled = members["IID, FedRCIL, as printed"], members["IID, FedRCIL"]
    assert printed["exemplars"] == labelled["exemplars"] == 2000
    assert (printed["exemplar_epochs"], labelled["exemplar_epochs"]) == (0, 1)


def test_tables_have_a_row_per_run_and_the_documents_numbers(tmp_path):
    table = stream_table(made_up(stream_members, tmp_path))
    row = next(row for row in table.rows if row[0] == "m_u 0.5, b 4")
    assert row[5:] == ("50.0 ± 0.0", "20.0 ± 0.0", "0.200 MB", "26.79")
    assert len(table.columns) == len(row)
    flat = multi_loss_table(made_up(multi_loss_members, tmp_path, forgetting=nan))
    assert [row[0] for row in flat.rows] == [*MULTI_LOSS, BASELINE]
    assert table.rows[-1] == (BASELINE, "–", "–", "–", "–", "10.0 ± 0.0", "–", "–", "–")
    skewed = {row[0]: row[-3:] for row in skew_table(made_up(skew_members, tmp_path)).rows}
    assert skewed["m_B"] == ("18.48", "28.79", "38.06")
    assert skewed["FedRCIL, as printed"] == ("–", "–", "–")
    assert skewed["FedRCIL"] == ("10.22", "16.62", "26.79")


def test_the_loss_of_about_ten_points_is_neither_more_nor_less(tmp_path):
    says = "FedRCIL: about ten points (8 to 12) are lost from IID to beta 1."
    for lost, holds in ((0.1, True), (0.05, False), (0.2, False)):
        results = made_up(skew_members, tmp_path)
        results["IID, FedRCIL"] = [StreamResult(0.5 + lost, nan, (0.9,) * 5, 2e5)] * 3
        assert {one.says: one.holds for one in skew_findings(results)}[says] is holds


@pytest.mark.parametrize(("better", "holds"), [(0.05, True), (-0.05, False)])
def test_findings_follow_the_numbers(tmp_path, better, holds):
    results = made_up(stream_members, tmp_path)
    results["m_u 0.5, b 4"] = [StreamResult(0.5 + better, 0.2 - better, (0.9,) * 5, 2e5)] * 3
    found = {one.says: one.holds for one in stream_findings(results)}
    for says in ("T8: m_u = 0.5 forgets less than m_u = 0.", "T8: a buffer of 4 is above a buffer of 1."):
        assert found[says] is holds
    flat = made_up(multi_loss_members, tmp_path)
    flat["m_B"] = [StreamResult(0.5 + better, nan, (0.9,) * 5, 2e5 - 1e6 * better)] * 3
    found = {one.says: one.holds for one in multi_loss_findings(flat)}
    assert found["T6: m_B is above plain FLD."] is holds
    assert found["m_B sends fewer bytes per round than FedAvg."] is holds
    skewed = made_up(skew_members, tmp_path)
    skewed["beta 1, FLD"] = [StreamResult(0.5 + better, nan, (0.9,) * 5, 2e5)] * 3
    assert {one.says: one.holds for one in skew_findings(skewed)}["FLD: accuracy rises with beta."] is holds


@pytest.mark.slow
def test_a_study_runs_from_beginning_to_end(tmp_path):
    """One round of every run on the small digits."""
    short = ("task.name=digits", "rounds=1", "eval_every=1", "local.epochs=1")
    members = len(STUDIES["fedrcil-beta"].members(StudyRequest(1, tmp_path)))
    request = StudyRequest(1, tmp_path / "study", settings=short)
    outcome = run_study(STUDIES["fedrcil-beta"], request)
    assert len(outcome.values) == members
    assert (tmp_path / "study/outcome.md").exists()


def test_a_claim_is_not_testable_where_no_client_is_above_twice_its_baseline(tmp_path):
    found = skew_findings(made_up(skew_members, tmp_path, accuracy=0.19))
    assert {one.holds for one in found} == {None}
    assert all(one.ours.startswith("not testable here: 19.0 ± 0.0 and 19.0 ± 0.0") for one in found)
