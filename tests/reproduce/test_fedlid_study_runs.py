"""The runs of FedLID's studies: configs that are accepted, grids of learning rates, and what is measured."""

from __future__ import annotations

import pytest

from fedloom.config.resolve import method_from_config, resolve
from fedloom.reproduce.fedlid_study_runs import (
    AFTER,
    ALL_LABELS,
    FEDAVG,
    FEDCA,
    FEDLID,
    FEDSIMCLR,
    FEW_LABELS,
    METHODS,
    RECEIVED,
    SERVER_DATA,
    SERVER_LRS,
    SUPERVISED_ALL,
    Rates,
    candidates_of,
    grid_of,
    lid_member,
    lid_values,
    result_of,
    tuned_as,
)
from fedloom.reproduce.study import StudyRequest
from fedloom.runs.results.history import History


@pytest.mark.parametrize("data", SERVER_DATA)
@pytest.mark.parametrize("method", METHODS)
def test_every_run_is_accepted_and_has_validation_parts(data, method):
    config = resolve(lid_values(data, method, "IID", FEW_LABELS, Rates(0.1, 0.03)))
    assert config.task.valid_share > 0
    assert method_from_config(config) is not None


def test_servers_have_a_learning_rate_of_their_own():
    assert len(grid_of(FEDLID)) == len(SERVER_LRS) * len(grid_of(FEDAVG))
    values = lid_values("cifar10", FEDLID, "IID", ALL_LABELS, Rates(0.1, 0.03))
    assert (values["local"]["lr"], values["method"]["server_lr"]) == (0.1, 0.03)


def test_methods_that_train_the_same_are_tuned_once(tmp_path):
    cases = [("supervised 20 %", ALL_LABELS), (SUPERVISED_ALL, ALL_LABELS), (FEDCA, ALL_LABELS), (FEDCA, FEW_LABELS)]
    assert set(candidates_of(StudyRequest(1, tmp_path), cases)) == {SUPERVISED_ALL, FEDCA}
    assert tuned_as(FEDLID, FEW_LABELS) != tuned_as(FEDLID, ALL_LABELS)


def test_a_run_has_the_chosen_learning_rate(tmp_path):
    member = lid_member(StudyRequest(1, tmp_path), FEDAVG, "IID", FEW_LABELS, {tuned_as(FEDAVG, FEW_LABELS): "0.3"})
    assert member.values["local"]["lr"] == 0.3
    assert member.values["task"]["label_share"] == 0.1


def test_clients_predict_with_what_they_trained_last_or_with_a_probe():
    stages = {method: lid_values("cifar10", method, "IID", "", Rates(0.1))["prediction"] for method in METHODS}
    assert stages[FEDSIMCLR] == stages[FEDCA] == ["linearprobe"]
    assert stages[FEDLID] == stages[FEDAVG] == ["lastlocalmodel"]


def test_a_result_has_both_measures_and_both_baselines():
    record = {"round": 2, "bytes_up": 2e7, "bytes_down": 0, "bytes_between": 0, "metrics": {RECEIVED: 0.2, AFTER: 0.4}}
    scores = [{"name": name, "metrics": {AFTER: score}} for name, score in (("majority", 0.1), ("own majority", 0.3))]
    found = result_of(History({}, [record], baselines=scores), "0.1")
    assert (found.received, found.after, found.pooled, found.own, found.bytes) == (0.2, 0.4, 0.1, 0.3, 1e6)
