"""The ends of logs: the last lines, without escape codes, and nothing from outside the folder."""

from __future__ import annotations

import os

import pytest

from fedloom.watch.log_tail import LINES, WIDEST, log_tails, plain_line, tail_lines


@pytest.mark.parametrize(("line", "plain"), [
    ("\x1b[31mred\x1b[0m text", "red text"),
    ("\x1b]0;title\x07after", "after"),
    ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
    ("\x1b[2J\x1b[1;1Hhome", "home"),
    ("bell\x07 null\x00 back\x08", "bell  null  back "),
    ("\x9b31mold", " 31mold"),
    ("unfinished \x1b", "unfinished "),
    ("a\tb", "a  b"),
    ("\u202eevil", " evil"),
])  # fmt: skip
def test_what_a_terminal_would_obey_is_taken_out(line, plain):
    assert plain_line(line) == plain


def test_only_the_end_of_a_long_log_is_read(tmp_path):
    (tmp_path / "x.log").write_text("".join(f"line {n}\n" for n in range(100_000)) + 1000 * "w" + "\n")
    lines = tail_lines(tmp_path / "x.log")
    assert len(lines) == LINES
    assert lines[-2] == "line 99999"
    assert len(lines[-1]) <= WIDEST + 3


def test_links_pipes_and_other_files_are_not_shown(tmp_path):
    (tmp_path / "secret").write_text("key")
    (tmp_path / "f" / "logs").mkdir(parents=True)
    (tmp_path / "f" / "logs" / "link.log").symlink_to(tmp_path / "secret")
    (tmp_path / "f" / "logs" / "server.key").write_text("key")
    os.mkfifo(tmp_path / "f" / "logs" / "pipe.log")
    (tmp_path / "f" / "logs" / "site.log").write_text("hello\n")
    (tmp_path / "f" / "proxy").symlink_to(tmp_path)
    (tmp_path / "error.log").write_text("x\n")
    assert log_tails(tmp_path / "f") == {"logs/site.log": ["hello"]}
