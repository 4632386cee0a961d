"""``fedloom run`` prints what was measured beside what answering without a model scores."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedloom.cli.app import app
from support.command_line import output


def test_the_table_of_a_run_has_a_column_per_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    printed = output(app, "run", "--clients", 4, "--rounds", 1, "--quiet", "--out", tmp_path / "run")
    heading = next(line for line in printed.splitlines() if "which model on whose data" in line)
    assert "own majority" in heading
    (line,) = (line for line in printed.splitlines() if "client_model/own_test/accuracy/mean" in line)
    (trained,) = (line for line in printed.splitlines() if "trained_model/own_test/accuracy/mean" in line)
    assert [bool(cell.strip()) for cell in line.strip("│").split("│")] == [True, True, True, True]
    assert [bool(cell.strip()) for cell in trained.strip("│").split("│")] == [True, True, False, False]
