"""The table of a comparison: a mean of clients stands beside the value over all of their samples."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fedloom.cli.app import app


@pytest.fixture
def one_class_each(tmp_path, monkeypatch):
    """Three clients of one class each, whose own macro F1 is 1 wherever their class is predicted."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    np.savez("own.npz", x=draw.normal(size=(90, 2)), y=np.arange(90) % 3, client=np.arange(90) % 3)
    return ["compare", "--data", "own.npz", "--rounds", "2", "--out", "out", "local", "fedavg", "--seeds", "1"]


def test_pooled_macro_f1_stands_beside_the_mean_that_clients_of_one_class_inflate(one_class_each, tmp_path):
    said = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*one_class_each, "--set", "task.metrics=macro_f1"])
    assert said.exit_code == 0, said.output
    table = said.stdout[: said.stdout.index("mean ± standard deviation")]
    assert "pooled" in table
    assert "<th>Pooled" in (tmp_path / "out" / "report.html").read_text()


def test_where_accuracy_is_the_score_there_is_no_such_column(one_class_each, tmp_path):
    said = CliRunner(env={"COLUMNS": "200"}).invoke(app, one_class_each)
    assert said.exit_code == 0, said.output
    assert "pooled" not in said.stdout
    assert "<th>Pooled" not in (tmp_path / "out" / "report.html").read_text()


def test_a_class_that_a_client_neither_has_nor_predicts_does_not_count_for_it(one_class_each):
    said = CliRunner().invoke(app, [*one_class_each, "--set", "task.metrics=macro_f1,recall", "--json"])
    local = next(row for row in json.loads(said.stdout)["methods"] if row["method"] == "local")
    assert local["client_macro_f1"] == 1.0
