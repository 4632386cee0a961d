"""Tables and progress bars of texts that nobody has checked."""

from __future__ import annotations

import io

from rich.table import Table
from rich.text import Text

from fedloom.cli.terminal.console import PlainConsole


def drawn(*things: object) -> str:
    console = PlainConsole(file=io.StringIO(), width=60, force_terminal=True, color_system="standard")
    console.print(*things)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_brackets_are_no_markup_and_codes_no_codes():
    table = Table(title="[/]", caption="[red]")
    table.add_column("[/b]\x1b[2J")
    table.add_row("\x1b]0;x\x07")
    shown = drawn(table)
    assert "[/]" in shown
    assert "[red]" in shown
    assert "\u241b[2J" in shown
    assert "\x1b[2J" not in shown
    assert "\x07" not in shown


def test_a_styled_text_keeps_its_style_and_loses_its_codes():
    assert drawn(Text("a\x1b[2J", "bold")) == "\x1b[1ma\u241b[2J\x1b[0m\n"
    assert drawn(Text("a\x07", "bold")) == "\x1b[1ma\x1b[0m\n"  # rich drops a bell itself


def test_columns_stay_aligned():
    table = Table()
    table.add_column("name")
    table.add_row("\x1b\x07")
    lines = drawn(table).splitlines()
    assert len({len(line) for line in lines if "\x1b[1m" not in line}) == 1
