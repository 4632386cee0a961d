"""Learning rates are chosen on validation data, with a seed that no table reports."""

from __future__ import annotations

from typing import Any

import pytest

from fedloom.reproduce.study import StudyRequest
from fedloom.reproduce.tuning import TUNING_SEED, VALIDATION, choose_rates, tuning_members
from fedloom.runs.results.history import History

GRID = {"fedavg": {"0.1": {"lr": 0.1}, "0.3": {"lr": 0.3}}, "moon": {"0.1": {"lr": 0.1}}}
TEST = "client_model/own_test/accuracy/mean"


def history(valid: float, test: float, stopped: str | None = None) -> History:
    metrics = {VALIDATION: valid, TEST: test}
    return History({}, [{"round": 1, "metrics": metrics}], stopped=stopped)


def choose(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, **runs: History) -> dict[str, str]:
    asked = []

    def run(_, members, may_stop=False, only_seed=None):
        asked.append((may_stop, only_seed))
        return {member.label: [runs[member.label[len("learning rate ") :]]] for member in members}

    monkeypatch.setattr(StudyRequest, "run", run)
    chosen = choose_rates(StudyRequest(3, tmp_path), GRID)
    assert asked == [(True, TUNING_SEED)]
    return chosen


def test_the_best_on_validation_data_is_chosen_whatever_it_scores_on_test_data(monkeypatch, tmp_path) -> None:
    runs = {"0.1, fedavg": history(0.5, 0.9), "0.3, fedavg": history(0.6, 0.1), "0.1, moon": history(0.2, 0.2)}
    assert choose(monkeypatch, tmp_path, **runs) == {"fedavg": "0.3", "moon": "0.1"}


def test_a_run_that_stopped_is_not_chosen_and_of_equal_ones_the_first_is(monkeypatch, tmp_path) -> None:
    runs = {"0.1, fedavg": history(0.5, 0.5), "0.3, fedavg": history(0.9, 0.9, "diverged"), "0.1, moon": history(0, 0)}
    assert choose(monkeypatch, tmp_path, **runs)["fedavg"] == "0.1"
    runs["0.3, fedavg"] = history(0.5, 0.6)
    assert choose(monkeypatch, tmp_path, **runs)["fedavg"] == "0.1"


def test_the_seed_that_chooses_is_not_reported_and_labels_differ() -> None:
    assert TUNING_SEED not in range(100)
    members = tuning_members(GRID)
    assert len({member.folder_name for member in members}) == len(members) == 3


def test_two_small_runs_choose_for_real(tmp_path) -> None:
    """A rate that moves nothing loses."""

    def values(lr: float) -> dict[str, Any]:
        task = {"name": "digits", "clients": 2, "valid_share": 0.2, "model": "logistic"}
        return {"task": task, "local": {"lr": lr}, "rounds": 1, "eval_every": 1}

    grid = {"fedavg": {"tiny": values(1e-9), "usual": values(0.1)}}
    assert choose_rates(StudyRequest(1, tmp_path), grid) == {"fedavg": "usual"}
    assert (tmp_path / f"learning_rate_usual,_fedavg-seed{TUNING_SEED}").is_dir()
