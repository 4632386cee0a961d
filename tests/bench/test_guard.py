"""The guard on speed: which ratios fail it, and what it says. Nothing is timed here."""

from __future__ import annotations

import json
import subprocess

import pytest

import guard


def row(ratio: float, bar: float, case: str = "digits", contender: str = "loop") -> dict[str, object]:
    """A measurement as a benchmark prints it."""
    return {"case": case, "contender": contender, "ratio": ratio, "bar": bar}


@pytest.fixture
def run_guard(monkeypatch, capsys):
    """Runs the guard on given measurements of one benchmark; returns what it printed and what it exited with."""

    def run(rows: list[dict[str, object]]) -> tuple[str, object]:
        monkeypatch.setattr(guard, "SCRIPTS", ("local.py",))
        monkeypatch.setattr(guard, "measure", lambda script: rows)  # noqa: ARG005
        try:
            guard.main()
        except SystemExit as end:
            return capsys.readouterr().out, end.code
        return capsys.readouterr().out, None

    return run


@pytest.mark.parametrize("ratio", [0.6, 0.9, 1.0, 50.0])
def test_a_ratio_of_at_least_six_tenths_of_its_bar_passes(run_guard, ratio):
    printed, code = run_guard([row(10 * ratio, 10.0)])
    assert code is None
    assert printed.startswith("ok ")
    assert "guard: 0 failed" in printed


@pytest.mark.parametrize("ratio", [0.0, 0.3, 0.599])
def test_a_ratio_below_six_tenths_of_its_bar_fails_and_is_named(run_guard, ratio):
    printed, code = run_guard([row(2.0, 1.0, "fine"), row(10 * ratio, 10.0, "slow case", "vectorised")])
    assert code == f"slow case, vectorised: {10 * ratio:.2f} is below 0.6 of its bar 10.00"
    assert "FAIL" in printed
    assert "guard: 1 failed" in printed


def test_every_failure_is_named(run_guard):
    _, code = run_guard([row(0.1, 1.0, "first"), row(1.0, 1.0, "second"), row(0.2, 1.0, "third")])
    assert [line.split(",")[0] for line in str(code).splitlines()] == ["first", "third"]


def test_a_benchmark_without_a_bar_fails(run_guard):
    _, code = run_guard([])
    assert code == "local.py measured nothing that has a bar"


def test_only_measurements_with_a_bar_count(monkeypatch):
    lines = [json.dumps(row(1.0, 2.0)), json.dumps({"case": "digits", "seconds": 1.0})]
    commands = []

    def run(command, **_):
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, "\n".join(lines))

    monkeypatch.setattr(guard.subprocess, "run", run)
    assert guard.measure("scale.py") == [row(1.0, 2.0)]
    assert commands[0][-2:] == ["--json", "--quick"]
    assert commands[0][-3].endswith("bench/scale.py")


def test_every_script_of_the_guard_exists():
    folder = guard.Path(guard.__file__).parent
    assert all((folder / script).exists() for script in guard.SCRIPTS)
