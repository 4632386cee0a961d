"""Baselines beside the runs of methods: one row each, a value per seed, whatever the number of methods."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.core.task import Task
from fedloom.reports.summary_table import baseline_rows
from fedloom.runs.results.baselines import baselines_of_runs, strongest_baseline, words_of_seeds


def task_of_seed(seed: int) -> Task:
    return fl.task("digits", clients=5, alpha=0.2, seed=seed)


@pytest.fixture(scope="module")
def comparison() -> fl.Comparison:
    return fl.compare(task_of_seed, ["fedavg", "local"], seeds=2, rounds=1)


def test_there_is_a_row_per_baseline_with_a_value_per_seed(comparison: fl.Comparison) -> None:
    rows = {row["method"]: row for row in baseline_rows(comparison)}
    assert set(rows) == {"baseline: majority", "baseline: own majority"}
    assert comparison.baselines == list(rows.values())
    for name, row in rows.items():
        values = [
            one["metrics"]["client_model/own_test/accuracy/mean"]
            for run in comparison["fedavg"]
            for one in run.baselines
            if f"baseline: {one['name']}" == name
        ]
        assert len(values) == row["seeds"] == 2
        assert row["client_accuracy"] == pytest.approx(sum(values) / 2)
        assert row["megabytes_sent"] == row["steps"] == 0


def test_where_seeds_answer_differently_the_baseline_is_called_by_its_name(comparison: fl.Comparison) -> None:
    pooled, own = baselines_of_runs(comparison)
    answers = {one["words"] for run in comparison["fedavg"] for one in run.baselines if one["name"] == "majority"}
    assert pooled.words == (next(iter(answers)) if len(answers) == 1 else "the baseline 'majority'")
    assert own.words == "always answering each client's most frequent class"


def test_the_strongest_baseline_has_the_best_mean(comparison: fl.Comparison) -> None:
    score = comparison["fedavg"][0].score
    strongest = strongest_baseline(baselines_of_runs(comparison), score, score.clients)
    assert strongest is not None
    assert strongest.label == "baseline: own majority"  # clients of alpha 0.2 have few classes


def test_runs_without_baselines_have_no_rows() -> None:
    assert baseline_rows({"m": [fl.History({"method": {"name": "m"}}, [])]}) == []


def test_words_are_those_of_all_seeds_or_the_name() -> None:
    assert words_of_seeds("majority", ["always answering '1'"] * 2) == "always answering '1'"
    assert words_of_seeds("majority", ["always answering '1'", "always answering '3'"]) == "the baseline 'majority'"
