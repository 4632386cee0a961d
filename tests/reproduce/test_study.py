"""What a study is: findings judged by numbers, outcomes that are written, and questions that are refused."""

from __future__ import annotations

import json
from math import isnan
from pathlib import Path

import pytest

from fedloom.core.errors import FedloomError
from fedloom.reproduce.studies import STUDIES
from fedloom.reproduce.study import (
    Study,
    StudyFinding,
    StudyOutcome,
    StudyRequest,
    StudyTable,
    ahead_finding,
    baseline_score,
    mean_text,
    run_study,
)
from fedloom.runs.plans.members import Member
from fedloom.runs.results.history import History

TABLE = StudyTable("t", ("a", "b"), (("1", "2"),))
OUTCOME = StudyOutcome("s", "A title", (TABLE,), (StudyFinding("It holds.", "yes.", True),), ("note",))


def study(data: tuple[str, ...] = ()) -> Study:
    return Study("s", "about", lambda _: OUTCOME, lambda _: [], data=data)


def test_a_mean_is_in_points_with_its_spread_over_seeds():
    assert mean_text([0.5, 0.6]) == "55.0 ± 7.1"
    assert mean_text([0.5]) == "50.0"
    assert mean_text([3.0, 5.0], 1.0) == "4.0 ± 1.4"


@pytest.mark.parametrize(
    ("one", "other", "by", "holds", "noise"),
    [
        ([0.6, 0.7, 0.8], [0.5, 0.6, 0.7], 0.0, True, False),
        ([0.6, 0.7, 0.8], [0.5, 0.6, 0.7], 0.2, False, False),
        ([0.6, 0.5, 0.5], [0.5, 0.59, 0.5], 0.0, None, True),
        ([0.5, 0.5, 0.5], [0.6, 0.6, 0.6], -0.2, True, False),
        ([0.5], [0.6], 0.0, None, False),
        ([0.6, 0.7], [0.5, 0.6], 0.0, None, False),  # two seeds decide nothing, however alike they are
        ([0.53, 0.54, 0.51], [0.5, 0.5, 0.5], 0.0, None, True),  # three standard errors of three seeds
    ],
)
def test_who_is_ahead_is_said_by_the_difference_of_the_same_seeds(one, other, by, holds, noise):
    finding = ahead_finding("says", "ours", one, other, by)
    assert finding.holds is holds
    assert ("within noise" in finding.ours) is noise
    assert ("too few seeds" in finding.ours) is (len(one) < 3)


def test_a_finding_that_is_only_shown_has_no_mark_for_or_against():
    assert [StudyFinding("", "", holds).mark for holds in (True, False, None)] == ["✓", "✗", "–"]


def test_what_a_study_found_is_written_beside_its_runs(tmp_path):
    run_study(study(), StudyRequest(1, tmp_path / "new" / "folder"))
    values = json.loads((tmp_path / "new" / "folder" / "outcome.json").read_text())
    assert values["findings"] == [{"says": "It holds.", "ours": "yes.", "holds": True}]
    page = (tmp_path / "new" / "folder" / "outcome.md").read_text()
    assert "| a | b |\n| --- | --- |\n| 1 | 2 |" in page
    assert "- ✓ It holds. Ours: yes." in page


def test_settings_change_all_runs_and_a_run_that_diverges_is_told(tmp_path):
    members = [Member("m", "m", {"task": {"name": "digits", "clients": 3}, "rounds": 1, "method": {"name": "fedavg"}})]
    (history,) = StudyRequest(1, tmp_path / "a", settings=("rounds=2", "task.clients=2")).run(members)["m"]
    assert history.records[-1]["round"] == 2
    assert len(history.clients) == 2
    wild = StudyRequest(1, tmp_path / "b", settings=("local.lr=1e30",))
    with pytest.raises(FedloomError, match="m with seed 0 stopped: fedavg diverged"):
        wild.run(members)
    assert wild.run(members, may_stop=True)["m"][0].stopped


@pytest.mark.parametrize(
    ("data", "asked", "words"),
    [((), "n8n", "only one corpus"), (("synthetic", "n8n"), "mnist", "use synthetic or n8n")],
)
def test_a_corpus_that_a_study_does_not_have_is_refused(tmp_path, data, asked, words):
    with pytest.raises(FedloomError, match=words):
        run_study(study(data), StudyRequest(1, tmp_path, data=asked))


def test_no_seed_is_refused():
    with pytest.raises(FedloomError, match="seeds=0"):
        StudyRequest(0, Path("nowhere"))


def test_every_study_of_the_issues_is_there():
    flows = [f"flows-{name}" for name in ("kind", "finetune", "subkind", "new-action", "epochs", "lr")]
    gala = [f"gala-{name}" for name in ("cora", "citeseer", "pubmed", "ablation", "clients", "epochs", "readings")]
    assert {*flows, *gala, "privacy-writers"} <= set(STUDIES)


def test_a_baseline_is_found_by_its_name_and_the_first_is_the_default():
    scores = [{"name": name, "metrics": {"a": value}} for name, value in (("majority", 0.1), ("own majority", 0.3))]
    history = History({}, [], baselines=scores)
    assert baseline_score(history, "a") == 0.1
    assert baseline_score(history, "a", "own majority") == 0.3
    assert isnan(baseline_score(history, "a", "median"))


def test_members_may_run_with_one_seed_that_is_not_among_those_of_the_study(tmp_path):
    values = {"task": {"name": "digits", "clients": 2, "model": "logistic"}, "rounds": 1}
    found = StudyRequest(2, tmp_path).run([Member("a", "a", values)], only_seed=1000)
    assert [history.config["seed"] for history in found["a"]] == [1000]
    assert [path.name for path in tmp_path.iterdir()] == ["a-seed1000"]
