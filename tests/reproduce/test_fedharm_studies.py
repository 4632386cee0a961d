"""FedHARM beside its rivals: complete tables, and findings that follow the numbers."""

from __future__ import annotations

import pytest

from fedloom.reproduce.fedharm_studies import accuracy_table, byte_table, findings, rival_findings
from fedloom.reproduce.fedharm_study_runs import CLIENTS, DATA, ISOLATED, SCORE, TRAINED, UNALIGNED, arms
from fedloom.reproduce.studies import STUDIES
from fedloom.reproduce.study import StudyRequest
from fedloom.runs.results.history import History

BYTES, BASELINE = 72_000, 0.1


def history(accuracy: float, clients: int, trained: float | None) -> History:
    """A finished run: a record before round 1 without bytes, and one of a round."""
    metrics = {SCORE: accuracy} | ({} if trained is None else {TRAINED: trained})
    records = [
        {"round": 0, "bytes_up": 0, "bytes_down": 0, "metrics": {}},
        {"round": 1, "bytes_up": clients * BYTES, "bytes_down": clients * BYTES, "metrics": metrics},
    ]
    scored = [{"name": "majority", "metrics": {SCORE: BASELINE}}]
    return History({}, records, [{"accuracy": accuracy} for _ in range(clients)], baselines=scored)


def all_alike(data: str, after: float = 0.1, **other: float) -> dict[tuple[str, int], list[History]]:
    found = {}
    for arm in arms(data):
        value = other.get(arm.label, 0.5)
        for n in arm.counts(data):
            found[arm.label, n] = [
                history(one, n, None if arm is ISOLATED else one + after * arm.is_rival)  # nobody receives a model
                for one in (value, value + 0.01, value + 0.02)
            ]
    return found


@pytest.mark.parametrize("name", ["fedharm-clients", "fedharm-ablations"])
@pytest.mark.parametrize("data", DATA)
def test_the_runs_have_names_of_their_own(name, data, tmp_path):
    members = STUDIES[name].members(StudyRequest(1, tmp_path, data=data))
    assert len({m.folder_name for m in members}) == len({m.label for m in members}) == len(members)


def test_tables_have_a_row_per_arm_with_its_rate_both_measures_the_documents_numbers_and_bytes():
    values = all_alike("cifar10")
    chosen = {arm.label: "0.005" for arm in arms("cifar10")}
    rows = {row[0]: row[1:] for row in accuracy_table("cifar10", values, chosen).rows}
    assert list(rows)[:-1] == [arm.label for arm in arms("cifar10")]
    assert rows["MOON"] == ("0.005", "–", *["51.0 ± 1.0"] * 2, "–", *["61.0 ± 1.0"] * 2, "– / 74.2 / 73.6")
    assert rows["FedSimCLR + probe"] == ("0.005", "51.0 ± 1.0", *["–"] * 5, "68.1 / – / –")
    assert rows["FedHARM rem"][-1] == "83.87 / 82.03 / 79.76"
    assert rows["baseline: majority class"][1:7] == ("10.0 ± 0.0",) * 6
    assert {row[0]: row[1:4] for row in byte_table("cifar10", values).rows}["FedCon"] == ("–", "72.0 / 72.0", "–")


@pytest.mark.parametrize(("better", "holds"), [(0.05, True), (-0.05, False)])
def test_findings_follow_the_numbers(better, holds):
    values = all_alike("cifar10", **{"FedHARM rem": 0.5 + better})
    found = {one.says: one for one in findings("cifar10", values)}
    assert found["10 clients: rem is above the same clients without alignment (T10)."].holds is holds
    every = found["20 clients: rem makes every client better than alone."]
    assert every.holds is holds
    assert every.ours.startswith("60 of 60" if holds else "0 of 60")
    assert found["FedHARM sends fewer bytes per round than models would cost."].holds is True
    assert {UNALIGNED.label, ISOLATED.label} <= {label for label, _ in values}


def test_rivals_are_compared_as_the_document_prints_them_on_both_measures():
    """On CIFAR-10 FedHARM is above all of them; on CIFAR-100 PerFCL and MOON are above it."""
    found = {one.says: one.holds for one in rival_findings("cifar10", all_alike("cifar10", **{"FedHARM rem": 0.55}))}
    assert found["10 clients: FedHARM rem is above MOON (received)."] is True
    assert found["10 clients: FedHARM rem is above MOON (after local training)."] is False  # 0.6 there
    assert found["5 clients: FedHARM rem is above FedCA + probe."] is True
    assert len(found) == 2 * (3 + 2 * 5)
    says = {one.says for one in rival_findings("cifar100", all_alike("cifar100"))}
    assert "20 clients: PerFCL is above FedHARM rem (received)." in says
    assert "5 clients: FedHARM res is above FedSimSiam + probe." in says


def test_arms_at_chance_are_not_testable():
    values = all_alike("mnist", after=0.0, **{arm.label: 0.05 for arm in arms("mnist")})
    found = [*rival_findings("mnist", values), *findings("mnist", values)]
    assert all("not testable here" in one.ours for one in found if "above" in one.says or "below" in one.says)
    assert CLIENTS == (5, 10, 20)
