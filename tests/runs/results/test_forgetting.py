"""Forgetting by hand: best minus final accuracy, averaged over the tasks before the newest."""

from __future__ import annotations

import pytest

from fedloom.runs.results.forgetting import forgetting

WHERE = "global_model/global_test"


def measured(*accuracies: float, over: str = "") -> dict[str, float]:
    return {f"{WHERE}/task_{task}_accuracy{over}": value for task, value in enumerate(accuracies, start=1)}


def test_three_tasks_by_hand():
    records = [{"metrics": measured(*values)} for values in ((0.5,), (0.9,), (0.6, 0.8), (0.7, 0.7))]
    lost = forgetting(measured(0.4, 0.3, 0.9), records)
    assert lost == {f"{WHERE}/forgetting": pytest.approx(((0.9 - 0.4) + (0.8 - 0.3)) / 2)}
    assert forgetting(measured(1.0, 0.9, 0.1), records) == {f"{WHERE}/forgetting": 0.0}  # both are better than ever


def test_there_is_none_before_the_second_task_and_means_over_clients_have_their_own():
    assert forgetting(measured(0.4), [{"metrics": measured(0.9)}]) == {}
    assert forgetting({"global_model/global_test/accuracy": 0.4}, []) == {}
    found = forgetting(measured(0.4, 0.5, over="/mean"), [{"metrics": measured(0.6, over="/mean")}])
    assert found == {f"{WHERE}/forgetting/mean": pytest.approx(0.2)}
