"""Print lines. Names and labels come from users' files and from other machines: what they contain stays visible text.

A terminal obeys escape codes, so a client called ``ESC ]0;...`` could rename its window, clear it or hide lines.
"""

from __future__ import annotations

import logging

import typer

_VISIBLE = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
_VISIBLE |= {0x7F: "\u2421"} | dict.fromkeys(range(0x80, 0xA0), "\ufffd")


def visible(text: str) -> str:
    """The text with its control characters drawn as pictures; line ends and tabs stay."""
    return text.translate(_VISIBLE)


def say(text: object = "", err: bool = False) -> None:
    """Print a line on standard output, or on standard error."""
    typer.echo(visible(str(text)), err=err)


class VisibleFormatter(logging.Formatter):
    """Formats log records without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's text."""
        return visible(super().format(record))
