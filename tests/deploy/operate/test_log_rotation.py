"""Logs are bounded, a program that has one open writes on, and what it said last is still read."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fedloom.deploy.operate import log_rotation
from fedloom.deploy.operate.log_rotation import KEPT, LogRotation, old_log, rotate
from fedloom.deploy.operate.programs import Program, start_program
from support.waiting import wait_until


def wait_for(program: Program, words: str) -> None:
    wait_until(lambda: program.has_ended or words in program.output())
    assert words in program.output()


def test_old_logs_move_up_and_the_oldest_goes(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    for number in range(KEPT + 2):
        log.write_text(str(number))
        rotate(log)
        assert log.read_text() == ""
    assert [old_log(log, age).read_text() for age in range(1, KEPT + 1)] == ["4", "3", "2"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.log", "one.log.1", "one.log.2", "one.log.3"]
    assert stat.S_IMODE(old_log(log).stat().st_mode) == 0o600


def test_all_large_logs_of_a_participant_are_rotated_and_small_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_rotation, "LARGEST", 10)
    logs = ("logs/superlink.log", "logs/nginx.log", "proxy/access.log", "proxy/error.log", "policy.jsonl")
    for name in (*logs, "logs/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x" * 11)
    (tmp_path / "logs/site.log").write_text("x" * 10)
    LogRotation(tmp_path).check()
    sizes = {str(path.relative_to(tmp_path)): path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
    assert sizes == {
        **dict.fromkeys(logs, 0),
        **{f"{name}.1": 11 for name in logs},
        "logs/notes.txt": 11,
        "logs/site.log": 10,
    }


def test_a_program_writes_on_and_what_it_said_is_read_across_the_rotation(tmp_path: Path) -> None:
    code = "import sys\nfor line in sys.stdin: print(line.strip(), flush=True)"
    log = tmp_path / "logs" / "one.log"
    log.parent.mkdir()
    log.write_text("of a program before\n" * 20)
    with open(log, "ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=file, text=True, start_new_session=True
        )
    program = Program("one", process, log, log.stat().st_size)  # type: ignore[arg-type]
    assert process.stdin is not None
    try:
        for word in ("first", "second"):
            process.stdin.write(f"{word}\n")
            process.stdin.flush()
            wait_for(program, word)
            rotate(log)
            assert program.output().endswith(f"{word}\n")
            assert "before" not in program.output()
        process.stdin.write("third\n")
        process.stdin.flush()
        wait_for(program, "third")
        assert log.read_text() == "third\n"  # appended to the emptied file, without a hole
        assert program.output() == "second\nthird\n"
    finally:
        program.kill()


def test_a_new_program_does_not_read_the_old_logs_of_another(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "one.log"
    log.parent.mkdir()
    log.write_text("of a program before\n")
    rotate(log)
    program = start_program("one", [sys.executable, "-c", "print('now')"], log, {}, tmp_path)
    program.process.wait()
    assert program.output() == "now\n"
