"""What is printed is text: nothing in a name, a label or a path commands the terminal."""

from __future__ import annotations

import csv
import logging
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.cli.terminal.say import VisibleFormatter, say, visible
from support.paths import REPOSITORY

NAMES = ["[/]", "$x$", "\x1b[31mred\x1b[0m", "<script>a</script>", "$\\frac{", "[bold]b[/bold]", "bell\x07", "\u6f22"]
LABELS = ["[/red]", "$y_", "\x1b]0;owned\x07", "\x9b2J"]


def write_table(path: Path) -> None:
    """A table whose columns, clients and classes have hostile names."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["[/a]", "\x1b[1mb", "kl[a", "who$"])
        for row in range(160):
            writer.writerow([row % 4 + row / 160, ["[/u]", "\x1b[2Jv"][row % 2], LABELS[row % 4], NAMES[row // 4 % 8]])


@given(st.text(st.characters(max_codepoint=0x2FF)))
def test_control_characters_become_pictures_of_the_same_number(text):
    shown = visible(text)
    assert len(shown) == len(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)
    assert all(a == b for a, b in zip(shown, text, strict=True) if b.isprintable() or b in "\n\t")


def test_lines_and_log_records_are_visible(capsys):
    say("a\x1b[2Jb")
    say("c\x07", err=True)
    assert capsys.readouterr() == ("a␛[2Jb\n", "c␇\n")
    record = logging.LogRecord("fedloom", logging.WARNING, "", 0, "%s", ("\x1b]0;x",), None)
    assert VisibleFormatter("%(message)s").format(record) == "␛]0;x"


@pytest.mark.slow
def test_hostile_names_pass_through_every_command_as_text(tmp_path, fedloom, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    write_table(tmp_path / "d.csv")
    data = ["--data", "d.csv", "--target", "kl[a", "--client-column", "who$", "--rounds", "1", "--model", "mlp"]
    for words in (
        ["data", "d.csv", "--target", "kl[a", "--client-column", "who$"],
        ["run", *data, "--out", "r[/]"],
        ["report", "r[/]"],
        ["resume", "r[/]", "--rounds", "2"],
        ["predict", "r[/]", "d.csv", "--client", "[/]"],
        ["compare", "fedavg", "local", *data, "--seeds", "1", "--out", "c$[x]"],
        ["sweep", *data, "--grid", "local.lr=0.1,0.01", "--seeds", "1", "--out", "s[/]"],
    ):
        done = fedloom(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        for hostile in ("\x1b[31mred", "\x1b[2J", "\x1b]0;", "\x07", "\x9b"):
            assert hostile not in done.stdout + done.stderr, words


def test_only_this_module_writes_to_the_terminal():
    for path in (REPOSITORY / "src/fedloom/cli").glob("*.py"):
        if path.name not in ("say.py", "console.py"):
            found = re.search(r"typer\.echo|click\.echo|rich\.console import Console\b|[^.]\bprint\(", path.read_text())
            assert found is None, f"{path.name}: {found}: use say or PlainConsole"
