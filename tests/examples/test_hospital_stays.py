"""From a messy table to a comparison by its mean absolute error, in the one command of docs/own-data.md."""

from __future__ import annotations

import json
import runpy
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedloom.cli.app import app
from support.paths import REPOSITORY

PAGE = (REPOSITORY / "docs" / "own-data.md").read_text()


@pytest.mark.slow
def test_the_command_of_the_page_compares_by_the_error_and_says_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(REPOSITORY / "examples" / "hospital_stays.py"))["write_csv"](Path("stays.csv"))
    assert "\n".join(Path("stays.csv").read_text().splitlines()[:2]) in PAGE
    (line,) = (line.removeprefix("$ fedloom ") for line in PAGE.splitlines() if line.startswith("$ fedloom compare"))
    result = CliRunner().invoke(app, [*shlex.split(line), "--json"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    for note in answer["data"]:
        assert f"  {note}\n" in PAGE
    together, alone = answer["methods"]
    assert f"{together['client_mae']:.2f} for `fedavg` and {alone['client_mae']:.2f} for `local`" in PAGE
    last = [row.split(";")[-1] for row in Path("stays.csv").read_text().splitlines()[1:]]
    days = np.array([float(cell) for cell in last if cell])
    assert together["client_mae"] < 0.6 * np.abs(days - np.median(days)).mean()  # something was learnt
    assert json.loads((tmp_path / "stays/fedavg-seed0/partition.json").read_text())["notes"] == answer["data"]
