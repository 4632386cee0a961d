"""The data of a report's script are the numbers of the runs, and no text in them can end the script."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fedloom.reports import explore_data as module
from fedloom.reports.explore_data import explore_data, explore_json
from fedloom.runs.results.summaries import CLIENTS, GLOBAL
from support.histories import history


def test_every_run_has_its_curve_and_one_without_the_metric_has_none() -> None:
    bare = history([0.1, 0.6])
    for record in bare.records:
        record["metrics"].pop(GLOBAL)
    data = explore_data({"local": [bare], "fedavg": [history([0.1, 0.6]), history([0.1, 0.8])]})
    shared = next(metric for metric in data["metrics"] if "shared model" in metric["title"])
    assert shared["lines"] == [None, {"rounds": [0, 1], "values": [0.1, 0.6]}, {"rounds": [0, 1], "values": [0.1, 0.8]}]
    assert shared["share"] is True
    assert [run["method"] for run in data["runs"]] == [0, 1, 1]


def test_runs_are_told_apart_by_the_settings_in_which_they_differ() -> None:
    runs = [history([0.1, 0.6]) for _ in range(3)]
    for run, rate, steps in zip(runs, (0.1, 0.1, 0.3), ([], [], [{"name": "quantize", "bits": 8}]), strict=True):
        run.config |= {"seed": 4, "rounds": 2, "local": {"lr": rate, "clip": None}, "channel": steps}
    data = explore_data({"fedavg": runs[:1], "scaffold": runs[1:]})
    assert data["columns"] == ["method", "seed", "channel", "local.lr"]
    assert [run["columns"] for run in data["runs"]] == [
        ["fedavg", "4", "–", "0.1"],
        ["scaffold", "4", "–", "0.1"],
        ["scaffold", "4", "quantize:bits=8", "0.3"],
    ]


def test_the_page_has_students_quantiles_for_as_many_seeds_as_it_has_runs() -> None:
    quantiles = explore_data({"a": [history([0.1])], "b": [history([0.1]), history([0.1])]})["quantiles"]
    assert quantiles == [None, pytest.approx(12.7062, abs=1e-4), pytest.approx(4.30265, abs=1e-5), pytest.approx(3.18245, abs=1e-5)]  # fmt: skip # noqa: E501


def test_loss_is_shown_where_it_was_measured() -> None:
    run = history([0.1, 0.6])
    assert not any(metric["unit"] == "loss" for metric in explore_data({"a": [run]})["metrics"])
    for record in run.records:
        record["metrics"]["client_model/own_test/loss/mean"] = 2.5
    loss = next(metric for metric in explore_data({"a": [run]})["metrics"] if metric["unit"] == "loss")
    assert loss["lines"][0]["values"] == [2.5, 2.5]
    assert loss["share"] is False


def test_rounds_lie_where_their_bytes_steps_and_seconds_put_them() -> None:
    run = history([0.1, 0.6, 0.7])
    axes = {axis["name"]: axis["places"][0] for axis in explore_data({"a": [run]})["axes"]}
    assert axes["megabytes"] == {0: 0.0, 1: 3.0, 2: 6.0}
    assert axes["local steps"] == {0: 0.0, 1: 7.0, 2: 14.0}
    assert "seconds" not in axes
    run.seconds = {0: 0.5, 1: 2.0, 2: 1.0}
    axes = {axis["name"]: axis["places"][0] for axis in explore_data({"a": [run]})["axes"]}
    assert axes["seconds"] == {0: 0.5, 1: 2.5, 2: 3.5}


def test_the_table_of_clients_has_a_value_per_method_and_the_rounds_of_each_client() -> None:
    one, other = history([0.1, 0.6, 0.7], own=0.5), history([0.1, 0.6], own=0.25)
    other.clients[1]["accuracy"] = None
    [table] = explore_data({"a": [one], "b": [other]})["seeds"]
    assert table["all"] == 4
    assert [row["values"] for row in table["rows"]] == [[0.5, 0.25], [0.5, None], [0.5, 0.25], [0.5, 0.25]]
    assert [row["rounds"] for row in table["rows"]] == [[[], []], [[1], [1]], [[2], []], [[], []]]
    assert table["rows"][2]["counts"] == [5, 0, 5]


def test_seeds_have_tables_of_their_own_and_long_ones_are_cut_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [history([0.1, 0.6]), history([0.1, 0.6])]
    runs[0].config["seed"], runs[1].config["seed"] = 0, 1
    monkeypatch.setattr(module, "MOST_CLIENTS", 3)
    monkeypatch.setattr(module, "MOST_ROWS", 5)
    tables = explore_data({"a": runs})["seeds"]
    assert [(table["seed"], table["all"], len(table["rows"])) for table in tables] == [("0", 4, 3), ("1", 4, 2)]


def test_the_text_is_json_without_a_tag_or_a_number_that_is_none() -> None:
    run = history([0.1, float("nan"), 0.6])
    run.clients[0]["name"] = "</script><b>\u2028"
    text = explore_json({"</script>": [run]})
    assert "<" not in text
    assert "\u2028" not in text
    data = json.loads(text)
    assert data["methods"][0]["name"] == "</script>"
    assert data["seeds"][0]["rows"][0]["name"] == "</script><b>\u2028"
    mean = next(metric for metric in data["metrics"] if metric["title"].startswith("Accuracy, clients"))["lines"][0]
    assert np.isfinite(mean["values"]).all()
    assert mean["rounds"] == [0, 2]
    assert CLIENTS not in text
