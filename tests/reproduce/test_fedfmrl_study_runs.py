"""What the runs of FedFMRL's studies have in common, and what is read from them."""

from __future__ import annotations

from math import isnan, nan

import pytest

import fedloom as fl
from fedloom.config.resolve import resolve
from fedloom.reproduce.fedfmrl_study_runs import (
    CLIENT_SCORE,
    SERVER_SCORE,
    FmrlResult,
    accuracy_text,
    client_finding,
    clients_of,
    equal_clients,
    fmrl_member,
    results_of,
    skewed_clients,
)


@pytest.mark.parametrize("task", [equal_clients("cifar10"), skewed_clients("cifar100", 0.25)])
def test_a_member_is_a_config_that_is_accepted(task):
    config = resolve(dict(fmrl_member("FLD", task, {"name": "fld"}).values))
    assert config.clients_on_global
    assert config.task.communal is not None


def test_accuracies_and_bytes_are_read_from_the_last_round():
    records = [
        {"round": 1, "bytes_up": 100, "bytes_down": 300, "metrics": {}},
        {"round": 2, "bytes_up": 100, "bytes_down": 500, "metrics": {CLIENT_SCORE: 0.4, SERVER_SCORE: 0.3}},
    ]
    (found,) = results_of([fl.History(config={}, records=records)])
    assert found == FmrlResult(0.4, 0.3, 1000 / 5 / 2)
    (lost,) = results_of([fl.History(config={}, records=records[:1], stopped="not finite")])
    assert lost.diverged
    assert isnan(lost.clients)


def test_a_run_that_diverged_is_named_and_counts_as_nothing_learned():
    fine, lost = [FmrlResult(0.4, nan, 1.0)] * 2, [FmrlResult(nan, nan, 1.0, True), FmrlResult(0.5, nan, 1.0)]
    assert accuracy_text(lost, clients_of(lost)) == "diverged (1 of 2)"
    assert accuracy_text(fine, [one.server for one in fine]) == "–"
    assert accuracy_text(fine, clients_of(fine)) == "40.0 ± 0.0"
    finding = client_finding({"a": fine, "b": lost}, "a is above b.", "a", "b")
    assert finding.holds is None  # 15 points are within the noise of two seeds
    assert "diverged (1 of 2)" in finding.ours
