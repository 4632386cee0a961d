"""The comparison's numbers are those of the histories, and a row says what each is a mean of."""

from __future__ import annotations

import pytest

from fedloom.reports.summary_table import differences, summary
from fedloom.runs.results.summaries import CLIENTS
from support.histories import measured_run as run
from support.histories import two_rounds


def test_a_row_is_the_mean_and_sample_deviation_over_seeds_of_the_last_values() -> None:
    (row,) = summary({"fedavg": [run([0.1, 0.7], [0.1, 0.6]), run([0.1, 0.9], [0.1, 0.6])]})
    assert row["client_accuracy"] == pytest.approx(0.8)
    assert row["client_accuracy_std"] == pytest.approx(0.02**0.5)  # sqrt((0.1^2 + 0.1^2) / (2 - 1))
    assert row["global_accuracy"] == pytest.approx(0.6)
    assert row["global_accuracy_std"] == pytest.approx(0.0)
    assert (row["worst_decile"], row["client_spread"]) == pytest.approx((0.2, 0.1))
    assert (row["megabytes_up"], row["megabytes_down"], row["steps"], row["rounds"]) == (3.0, 2.0, 10.0, 1)
    assert (row["megabytes_between"], row["megabytes_sent"]) == (1.5, 6.5)
    assert (row["seeds"], row["stopped"]) == (2, None)


def test_one_seed_has_no_deviation_and_what_was_not_measured_is_none() -> None:
    (row,) = summary({"fedavg": [run([0.1, 0.7])]})
    assert row["client_accuracy_std"] is None
    assert row["global_accuracy"] is None


def test_a_diverged_run_keeps_its_last_finite_value_and_its_reason() -> None:
    (row,) = summary({"fedsgd": [run([0.1, 0.5, float("nan")], stopped="loss is NaN"), run([0.1, 0.5, 0.6])]})
    assert row["client_accuracy"] == pytest.approx(0.55)
    assert row["last_measured"] == 1
    assert row["stopped"] == "1 of 2 seeds: loss is NaN"


def test_differences_are_the_config_keys_that_make_a_comparison_unfair() -> None:
    one, other = run([0.1], task={"name": "digits", "clients": 5}), run([0.1], task={"name": "digits", "clients": 9})
    other.config |= {"seed": 7, "method": {"name": "other"}}
    assert differences({"a": [one], "b": [other]}) == ["task.clients"]


def test_new_clients_and_recall_are_in_a_row_when_they_were_measured() -> None:
    new, recall = CLIENTS.replace("mean", "new"), "client_model/own_test/withheld_recall/mean"
    one, other = summary({"a": [two_rounds({CLIENTS: 0.5, new: 0.3, recall: 0.1}, [0, 1])], "b": [run([0.1, 0.2])]})
    assert (one["new_accuracy"], one["withheld_recall"]) == (0.3, 0.1)
    assert (other["new_accuracy"], other["withheld_recall"]) == (None, None)


def test_efficiency_is_the_mean_over_rounds_and_only_where_clients_were_left_out() -> None:
    name = CLIENTS.replace("mean", "per_selected")
    rows = summary({
        "some": [two_rounds({CLIENTS: 0.6, name: 0.3}, [0, 1])],
        "all": [two_rounds({CLIENTS: 0.6, name: 0.15}, [0, 1, 2, 3])],
        "all but the new": [two_rounds({CLIENTS: 0.6, name: 0.2}, [0, 1, 2], new_clients=1)],
    })  # fmt: skip
    assert [row["efficiency"] for row in rows] == [0.3, None, None]


def test_rounds_to_a_target_are_there_when_asked_and_count_the_seeds_that_reached_it() -> None:
    runs = {"a": [run([0.1, 0.9]), run([0.1, 0.2, 0.8])], "b": [run([0.1, 0.9]), run([0.1])], "c": [run([0.1])]}
    assert "rounds_to" not in summary(runs)[0]
    rows = [(row["rounds_to"], row["reached"], row["reach"]) for row in summary(runs, reach=0.8)]
    assert rows == [(1.5, 2, 0.8), (1.0, 1, 0.8), (None, 0, 0.8)]


def test_stages_may_differ_between_compared_methods() -> None:
    one, other = run([0.1]), run([0.1], prediction=[{"name": "finetune"}])
    assert differences({"a": [one], "b": [other]}) == []
