"""The guard on speed: which ratios fail it, and what it says. Nothing is timed here."""

from __future__ import annotations

import json
import subprocess

import pytest

import guard

IDLE, BUSY = ([1.0, 0.97], [0.99, 0.98]), [0.3, 0.4]
"""The shares of a core that two processes get before and after a benchmark, and on a busy machine."""


def row(ratio: float, bar: float, case: str = "digits", contender: str = "loop") -> dict[str, object]:
    """A measurement as a benchmark prints it."""
    return {"case": case, "contender": contender, "ratio": ratio, "bar": bar}


@pytest.fixture
def run_guard(monkeypatch, capsys):
    """Runs the guard on given measurements of one benchmark; returns what it printed and what it exited with."""

    def run(rows: list[dict[str, object]], shares: tuple[list[float], list[float]] = IDLE) -> tuple[str, object]:
        measured = iter(shares)
        monkeypatch.setattr(guard, "SCRIPTS", ("local.py",))
        monkeypatch.setattr(guard, "core_shares", lambda: next(measured))
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
    assert "guard: 0 failed, 0 skipped" in printed


@pytest.mark.parametrize("ratio", [0.0, 0.3, 0.599])
def test_a_ratio_below_six_tenths_of_its_bar_fails_and_is_named(run_guard, ratio):
    printed, code = run_guard([row(2.0, 1.0, "fine"), row(10 * ratio, 10.0, "slow case", "vectorised")])
    assert code == f"slow case, vectorised: {10 * ratio:.2f} is below 0.6 of its bar 10.00"
    assert "FAIL" in printed
    assert "guard: 1 failed" in printed


@pytest.mark.parametrize("shares", [(BUSY, IDLE[1]), (IDLE[0], BUSY), ([1.0, 0.5], IDLE[1])])
def test_a_ratio_of_wall_time_is_skipped_by_name_where_a_core_is_busy(run_guard, shares):
    rows = [row(0.1, 1.7, "run, wall time", "2 worker(s)") | {"needs_cores": 2}, row(1.0, 1.0, "CPU time")]
    printed, code = run_guard(rows, shares)
    assert code is None
    assert "skip      0.10 (bar 1.70)  run, wall time, 2 worker(s): it needs 2 free cores, found " in printed
    assert "ok        1.00 (bar 1.00)  CPU time" in printed
    assert "guard: 0 failed, 1 skipped" in printed


def test_a_ratio_of_wall_time_counts_where_the_cores_are_free(run_guard):
    _, code = run_guard([row(0.1, 1.7, "run, wall time") | {"needs_cores": 2}])
    assert str(code).startswith("run, wall time, loop: 0.10 is below")


def test_a_ratio_of_cpu_time_counts_on_a_busy_machine(run_guard):
    _, code = run_guard([row(0.1, 1.0, "CPU time") | {"needs_cores": 1}], (BUSY, BUSY))
    assert str(code).startswith("CPU time, loop: 0.10 is below")


def test_shares_of_cores_are_measured():
    shares = guard.core_shares(2, 0.05)
    assert len(shares) == 2
    assert all(0 < share < 1.2 for share in shares)


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
