"""FedHARM's ablations: findings that follow the numbers, and blocks beside the document's."""

from __future__ import annotations

from fedloom.reproduce.fedharm_ablations import ablation_findings, ablation_table, block_table
from fedloom.reproduce.fedharm_study_runs import ABLATED, SCORE, ablations
from fedloom.runs.results.history import History


def test_findings_of_ablations_follow_the_numbers():
    def runs(accuracy: float) -> list[History]:
        return [History({}, [{"round": 1, "metrics": {SCORE: accuracy + 0.01 * seed}}]) for seed in range(3)]

    values = {(arm.label, ABLATED): runs(0.9 if arm.label == "res, raw maps" else 0.5) for arm in ablations("cifar10")}
    found = {one.says: one.holds for one in ablation_findings("cifar10", values)}
    assert found["Descriptors are above raw maps."] is False
    assert found["Alignment helps networks of all families (T10)."] is False  # equal is not above


def test_blocks_of_every_seed_are_beside_the_documents_and_those_of_its_rule():
    maps = [[[1, 2, 3, 4]] * 2 + [[1, 2, 6, 7]] * 2, [[1, 2, 3, 4]] * 2 + [[1, 3, 5, 7]] * 2]
    rows = {row[0]: row[1:] for row in block_table("cifar10", maps).rows}
    assert rows["mini-mobilenet"] == ("1–2–6–7, 1–3–5–7", "1–2–6–7", "1–2–3–5")
    assert rows["resnet8"][1:] == ("1–2–3–4", "1–2–3–4")
    for data, blocks in (("cifar100", "1–3–6–7"), ("mnist", "1–5–6–7")):
        assert {row[0]: row[2:] for row in block_table(data, maps).rows}["mini-efficientnet"] == (blocks, blocks)


def test_the_table_of_ablations_ends_with_the_baseline_of_the_same_clients():
    def run(seed: int) -> History:
        record = {"round": 1, "metrics": {SCORE: 0.5 + 0.1 * seed}, "bytes_up": 2000, "bytes_down": 0}
        return History(
            {},
            [record],
            clients=[{}, {}],
            baselines=[{"name": "majority", "words": "always '1'", "metrics": {SCORE: 0.1}}],
        )

    table = ablation_table("mnist", {("FedHARM rem", ABLATED): [run(0), run(1)]})
    assert [row[:2] for row in table.rows] == [
        ("FedHARM rem", "55.0 ± 7.1"),
        ("baseline: majority class", "10.0 ± 0.0"),
    ]
