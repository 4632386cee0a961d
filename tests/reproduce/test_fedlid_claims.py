"""FedLID's claims follow the numbers of both measures, and are not testable where nobody has learnt."""

from __future__ import annotations

import pytest

from fedloom.reproduce.fedlid_claims import label_findings, pretraining_findings, server_findings
from fedloom.reproduce.fedlid_studies import LABEL_CASES, SERVER_CASES, case_members, start_members
from fedloom.reproduce.fedlid_study_runs import FEDLID, LidResult
from fedloom.reproduce.study import StudyFinding, StudyRequest
from fedloom.runs.plans.members import Member


def measured(members: list[Member], after: float = 0.3, received: float = 0.3, **better: float):
    """Two seeds of each run, and more where the label ends with a given word."""

    def result(label: str) -> LidResult:
        more = sum(value for word, value in better.items() if label.endswith(word))
        return LidResult(received + more, after + more, 0.1, 0.2, 2e5, "0.1")

    return {member.label: [result(member.label)] * 3 for member in members}


def holding(found: list[StudyFinding]) -> dict[str, bool | None]:
    return {one.says: one.holds for one in found}


@pytest.mark.parametrize(("better", "holds"), [(0.05, True), (-0.05, False)])
def test_findings_follow_the_numbers_of_both_measures(tmp_path, better, holds):
    request = StudyRequest(3, tmp_path)
    found = server_findings(measured(case_members(request, SERVER_CASES, {}), FedLID=better))
    assert [one.holds for one in found[:16]] == [holds] * 16
    assert [one.holds for one in found[16:]] == [False] * 4  # equal gains, and equal accuracies
    labels = holding(label_findings(measured(case_members(request, LABEL_CASES, {}), FedLID=better)))
    assert labels["non-IID, 10 % labels, FedLID is above FedCA (after local training)."] is holds
    assert labels["IID: FedLID is above FedSimCLR with all labels (received model)."] is holds
    assert "IID: FedCA is above FedSimCLR (received model)." not in labels
    starts = pretraining_findings(measured(start_members(request, {}), **{f"{FEDLID}, pre-trained": better}))
    assert [one.holds for one in starts] == [False] * 4 + [holds] * 6


def test_a_measure_that_is_at_its_baseline_is_not_testable_and_the_other_is(tmp_path):
    """Trained at their clients, models are held against each client's own most frequent class."""
    members = case_members(StudyRequest(3, tmp_path), SERVER_CASES, {})
    found = holding(server_findings(measured(members, after=0.2, received=0.19, FedLID=0.0)))
    says = "IID: a SimCLR server is above a server with 20 % of its labels"
    assert found[f"{says} (after local training)."] is None
    assert found[f"{says} (received model)."] is False
    gain = "The gain over a supervised server (20 % of the labels) is larger when classes are skewed"
    assert found[f"{gain} (after local training)."] is None
    assert found[f"{gain} (received model)."] is False
