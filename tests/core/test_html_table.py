"""Tables for notebooks are escaped, and take the colours of their page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from fedloom.core.html_table import html_table


class Cells(HTMLParser):
    """The text of each cell, as a browser shows it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data


def test_what_users_call_things_stays_text() -> None:
    evil = '<script>alert("&")</script>'
    page = html_table(["name", "n"], [[evil, 3]], caption=evil, below=[evil])
    found = Cells(page)
    assert found.cells[2] == evil
    assert "script" not in found.tags


def test_text_is_left_and_numbers_are_right() -> None:
    sides = re.findall("text-align:([a-z]+)", html_table(["a", "b", "c"], [["x", "y", 1]], left=2))
    assert sides == ["left", "left", "right"] * 2


def test_a_table_has_no_colours_and_needs_nothing_else() -> None:
    page = html_table(["a", "b"], [["x", 1], ["y", 2]], caption="c", below=["d", ""], bold={(1, 1)})
    assert not re.search(r"color|background|#[0-9a-f]{3}|http|<style|<script", page)
    assert page.count("<b>2</b>") == 1
    assert page.count("<div") == 3


def test_rows_of_another_length_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="argument"):
        html_table(["a", "b"], [["x"]])
