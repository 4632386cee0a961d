"""The audit log: a chain that shows where it was changed, from several processes at once."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from fedloom.deploy.audit_log import AUDIT, NOTHING, append, append_changed_settings, read_audit


@pytest.fixture
def log(tmp_path: Path) -> Path:
    for site in ("north", "south", "west"):
        append(tmp_path, "site connected", site=site)
    return tmp_path / AUDIT


def change_line(log: Path, number: int, line: bytes | None) -> None:
    lines = log.read_bytes().splitlines()
    lines[number - 1 : number] = [] if line is None else [line]
    log.write_bytes(b"\n".join(lines) + b"\n")


def test_a_line_says_who_did_what_and_when_and_follows_from_the_one_before(log: Path) -> None:
    first, second, _ = log.read_bytes().splitlines()
    entry = json.loads(second)
    assert (entry["what"], entry["site"]) == ("site connected", "south")
    assert entry["who"] in (pwd.getpwuid(os.getuid()).pw_name, f"uid {os.getuid()}")
    assert json.loads(first)["before"] == NOTHING
    assert entry["before"] == hashlib.sha256(first).hexdigest()
    trail = read_audit(log.parent)
    assert trail.problem == ""
    assert len(trail.entries) == 3
    assert trail.head == hashlib.sha256(log.read_bytes().splitlines()[-1]).hexdigest()


def test_an_edited_line_breaks_the_chain_behind_it(log: Path) -> None:
    change_line(log, 2, log.read_bytes().splitlines()[1].replace(b"south", b"north"))
    assert "line 3" in read_audit(log.parent).problem
    assert "line 2 was edited" in read_audit(log.parent).problem


@pytest.mark.parametrize(("number", "said"), [(1, "line 1"), (2, "line 2")])
def test_a_removed_line_breaks_the_chain_where_it_was(log: Path, number: int, said: str) -> None:
    change_line(log, number, None)
    assert said in read_audit(log.parent).problem


def test_lines_cut_off_the_end_change_the_head(log: Path) -> None:
    head = read_audit(log.parent).head
    change_line(log, 3, None)
    trail = read_audit(log.parent)
    assert trail.problem == ""
    assert trail.head != head


def test_a_line_that_was_cut_is_named_and_the_chain_goes_on_behind_it(log: Path) -> None:
    log.write_bytes(log.read_bytes()[:-20])
    assert "incomplete" in read_audit(log.parent).problem
    append(log.parent, "server stopped")
    trail = read_audit(log.parent)
    assert "line 3" in trail.problem
    assert "not an entry" in trail.problem
    assert [entry["what"] for entry in trail.entries] == ["site connected", "site connected", "server stopped"]


def test_what_sites_say_is_one_short_line_without_escape_codes(tmp_path: Path) -> None:
    append(tmp_path, "request refused", site="x", reason="\x1b[31mred\nnext " + 1000 * "y")
    line = (tmp_path / AUDIT).read_bytes()
    assert line.count(b"\n") == 1
    assert b"\x1b" not in line
    assert len(line) < 700


def test_only_the_owner_can_read_it(log: Path) -> None:
    assert log.stat().st_mode & 0o777 == 0o600


def test_changed_settings_are_recorded_once(tmp_path: Path) -> None:
    (tmp_path / "deploy.toml").write_text("port = 1\n")
    append_changed_settings(tmp_path, "deploy.toml")
    append_changed_settings(tmp_path, "deploy.toml")
    (tmp_path / "deploy.toml").write_text("port = 2\n")
    append_changed_settings(tmp_path, "deploy.toml")
    entries = read_audit(tmp_path).entries
    assert [entry["what"] for entry in entries] == ["settings changed"] * 2
    assert entries[0]["settings"] != entries[1]["settings"]


@pytest.mark.slow
def test_processes_that_write_at_once_make_one_chain(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from fedloom.deploy.audit_log import append\n"
    code += "for i in range(50): append(Path(sys.argv[1]), 'site connected', site=sys.argv[2], number=i)"
    started = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "abc"]
    assert [process.wait() for process in started] == [0, 0, 0]
    trail = read_audit(tmp_path)
    assert trail.problem == ""
    assert len(trail.entries) == 150
