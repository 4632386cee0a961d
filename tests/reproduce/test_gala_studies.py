"""The Fed-GALA studies: which runs they are, how they are scored, and that every finding is judged by numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedloom as fl
from fedloom.reproduce.gala_studies import ORDER, accuracy_tables, orderings
from fedloom.reproduce.gala_study_runs import (
    AVG,
    CENTRAL,
    GALA,
    LOCAL,
    MODES,
    MOST,
    NONE_P,
    GalaPlan,
    TrainingCase,
    _weighted_mean,
)
from fedloom.reproduce.published_tables import published
from fedloom.reproduce.studies import STUDIES
from fedloom.reproduce.study import StudyRequest
from fedloom.runs.plans.members import RunFactory
from support.paths import DATA_FOLDER

ROWS = [
    {"train": 1, "points": 10, "accuracy": 0.2, "global_accuracy": 0.5},
    {"train": 3, "points": 2, "accuracy": 0.6, "global_accuracy": 0.7},
    {"train": 9, "points": 9, "accuracy": None, "global_accuracy": 0.1},
]


def test_clients_count_by_labels_or_by_labels_times_nodes():
    assert _weighted_mean(ROWS, AVG, "accuracy") == pytest.approx((1 * 0.2 + 3 * 0.6) / 4)
    assert _weighted_mean(ROWS, GALA, "accuracy") == pytest.approx((10 * 0.2 + 6 * 0.6) / 16)
    assert _weighted_mean(ROWS, GALA, "global_accuracy") == pytest.approx((10 * 0.5 + 6 * 0.7 + 81 * 0.1) / 97)


def test_a_method_with_phases_gets_the_documents_first_tolerance_for_each_test():
    plan = GalaPlan("cora", (TrainingCase(8),), (AVG, GALA, MOST, NONE_P))
    labels = [member.label for member in plan.members()]
    assert labels == [
        "fedavgexit+own K=8 E=3",
        "fedgala:first_tolerance=0.001+own K=8 E=3",
        "fedgala:first_tolerance=0.01+own K=8 E=3",
        "fedgala:augment=own,first_tolerance=0.001+own K=8 E=3",
        "fedgala:augment=own,first_tolerance=0.01+own K=8 E=3",
        "fedgalap:augment=none,first_tolerance=0.001+own K=8 E=3",
        "fedgalap:augment=none,first_tolerance=0.01+own K=8 E=3",
    ]
    one_for_both = GalaPlan("pubmed", (TrainingCase(8),), (GALA,))
    assert [member.label for member in one_for_both.members()] == ["fedgala:first_tolerance=0.0001+own K=8 E=3"]


@pytest.mark.slow
@pytest.mark.skipif(not (DATA_FOLDER / "cora.npz").is_file(), reason="Cora is not in the data folder")
def test_without_exits_all_clients_train_to_the_last_round(monkeypatch):
    """A tolerance of 0 is never reached: the reading in which nobody leaves in phase 3."""
    monkeypatch.setenv("FEDLOOM_DATA", str(DATA_FOLDER))
    task = fl.task("cora", clients=4)
    stays, leaves = (
        fl.run(task, fl.FedGala(tolerance=tolerance, first_tolerance=0.01), rounds=40, eval_every=40)
        for tolerance in (0.0, 1e-2)
    )
    assert stays.records[-1]["round"] == 40
    assert len(stays.records[-1]["selected"]) == 4
    assert leaves.total("steps") < stays.total("steps")


@pytest.mark.parametrize("name", [name for name in STUDIES if name.startswith("gala")])
def test_the_runs_of_a_study_have_folders_of_their_own(name, tmp_path):
    members = STUDIES[name].members(StudyRequest(1, tmp_path))
    assert len({member.folder_name for member in members}) == len({member.label for member in members}) == len(members)


def test_an_ordering_holds_when_our_numbers_say_so_and_shows_the_documents_gap():
    plan = GalaPlan("cora", (TrainingCase(8),), (AVG, GALA))
    scores = {(method, TrainingCase(8), mode): [0.6, 0.61, 0.6] for method in plan.methods for mode in MODES}
    scores[GALA, TrainingCase(8), "global"] = [0.64, 0.65, 0.64]
    scores[GALA, TrainingCase(8), "local"] = [0.5, 0.5, 0.5]
    good, bad = orderings(plan, scores, ((GALA, AVG),))
    assert good.holds
    assert "by 15.4 points" in good.says
    assert "+4.0 ± 0.0 points" in good.ours
    assert not bad.holds


def test_the_documents_tables_say_what_its_text_counts():
    """Fed-GALA above FedAvg and Fed-GALAp above FedProx in all of its cells."""
    table = published("gala").tables["accuracy"]
    for cell in map(table.row, table.rows):
        assert cell["Fed-GALA"] > cell["FedAvg"]
        assert cell["Fed-GALAp"] > cell["FedProx"]


@pytest.mark.slow
def test_a_study_plays_scores_and_goes_on_where_it_was(tmp_path, monkeypatch):
    if not (DATA_FOLDER / "cora.npz").is_file():
        pytest.skip("cora: no cora.npz in the data folder")
    monkeypatch.setenv("FEDLOOM_DATA", str(DATA_FOLDER))
    plan = GalaPlan("cora", (TrainingCase(4),), (CENTRAL, LOCAL, AVG, GALA))
    asked = StudyRequest(1, tmp_path, settings=("rounds=4", "eval_every=4"))
    scores = plan.run(asked)
    (table,) = accuracy_tables(plan, scores)
    answers = ["baseline: majority class", "baseline: each client's majority class"]
    assert [row[0] for row in table.rows] == ["Centralised", "Local", "FedAvg", "Fed-GALA", *answers]
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert [row[1] == "–" for row in table.rows[-2:]] == [False, True]  # on the whole graph nobody has own classes
    assert len(orderings(plan, scores, ORDER[:1])) == 2
    folder = next(tmp_path.glob("fedavgexit*"))
    history = fl.History.load(folder)
    task = RunFactory().task(_config(folder))
    task.layout.fill(task.model, history_row(folder))
    test = task.federation.global_test
    shared = float((task.model.eval()(test).argmax(1) == task.targets(test)).float().mean())
    assert scores[AVG, TrainingCase(4), "shared global"] == [pytest.approx(shared)]
    assert history.records[-1]["round"] == 4
    before = (folder / "metrics.jsonl").stat().st_mtime_ns
    assert plan.run(asked) == scores
    assert (folder / "metrics.jsonl").stat().st_mtime_ns == before  # read, not run again


def _config(folder: Path):
    from fedloom.runs.folder.load_config import load_config

    return load_config(folder)


def history_row(folder: Path):
    from fedloom.runs.folder.checkpoint import load_checkpoint

    return load_checkpoint(folder, 4).server["row"]
