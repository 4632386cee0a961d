"""FedHARM's studies: complete tables, and findings that follow the numbers."""

from __future__ import annotations

import pytest

from fedloom.reproduce.fedharm_studies import (
    SCORE,
    ablation_findings,
    accuracy_table,
    block_table,
    byte_table,
    findings,
)
from fedloom.reproduce.fedharm_study_runs import ABLATED, CLIENTS, DATA, ISOLATED, UNALIGNED, ablations, arms
from fedloom.reproduce.studies import STUDIES
from fedloom.reproduce.study import StudyRequest
from fedloom.runs.results.history import History

BYTES = 72_000


def history(accuracy: float, clients: int) -> History:
    """A finished run: a record before round 1 without bytes, and one of a round."""
    records = [
        {"round": 0, "bytes_up": 0, "bytes_down": 0, "metrics": {}},
        {"round": 1, "bytes_up": clients * BYTES, "bytes_down": clients * BYTES, "metrics": {SCORE: accuracy}},
    ]
    return History({}, records, [{"accuracy": accuracy} for _ in range(clients)])


def all_alike(labels: list[str], clients: tuple[int, ...], **other: float) -> dict[tuple[str, int], list[History]]:
    return {
        (label, n): [history(other.get(label, 0.5) + 0.01 * seed, n) for seed in range(3)]
        for label in labels
        for n in clients
    }


@pytest.mark.parametrize("name", ["fedharm-clients", "fedharm-ablations"])
@pytest.mark.parametrize("data", DATA)
def test_the_runs_have_names_of_their_own(name, data, tmp_path):
    members = STUDIES[name].members(StudyRequest(1, tmp_path, data=data))
    assert len({m.folder_name for m in members}) == len({m.label for m in members}) == len(members)


def test_tables_have_a_row_per_arm_with_the_documents_numbers_and_bytes():
    values = all_alike([arm.label for arm in arms("mnist")], CLIENTS)
    table = accuracy_table("mnist", values)
    assert [row[0] for row in table.rows] == [arm.label for arm in arms("mnist")]
    assert table.rows[-1][-1] == "98.94 / 98.65 / 98.54"
    assert table.rows[0][1] == "51.0 ± 1.0"
    assert byte_table("mnist", values).rows[-1][1] == "72.0 / 72.0"


@pytest.mark.parametrize(("better", "holds"), [(0.05, True), (-0.05, False)])
def test_findings_follow_the_numbers(better, holds):
    labels = [arm.label for arm in arms("cifar10")]
    values = all_alike(labels, CLIENTS, **{"FedHARM rem": 0.5 + better})
    found = {one.says: one for one in findings("cifar10", values)}
    assert found["10 clients: rem is above the same clients without alignment (T10)."].holds is holds
    every = found["20 clients: rem makes every client better than alone."]
    assert every.holds is holds
    assert every.ours.startswith("60 of 60" if holds else "0 of 60")
    assert found["FedHARM sends fewer bytes per round than models would cost."].holds is True
    assert len({UNALIGNED.label, ISOLATED.label} & set(labels)) == 2


def test_findings_of_ablations_follow_the_numbers():
    labels = [arm.label for arm in ablations("cifar10")]
    values = all_alike(labels, (ABLATED,), **{"res, raw maps": 0.9})
    found = {one.says: one.holds for one in ablation_findings("cifar10", values)}
    assert found["Descriptors are above raw maps."] is False
    assert found["Alignment helps networks of all families (T10)."] is False  # equal is not above


def test_blocks_of_every_seed_are_beside_the_documents():
    maps = [[[1, 2, 3, 4]] * 2 + [[1, 2, 6, 7]] * 2, [[1, 2, 3, 4]] * 2 + [[1, 3, 5, 7]] * 2]
    rows = {row[0]: row[1:] for row in block_table("cifar100", maps).rows}
    assert rows["mini-mobilenet"] == ("1–2–6–7, 1–3–5–7", "1–3–6–7")
    assert rows["resnet8"][1] == "1–2–3–4"
