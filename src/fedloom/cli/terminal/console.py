"""Rich consoles whose texts are plain: square brackets are not markup, and control characters are pictures."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from fedloom.cli.terminal.say import visible


class PlainConsole(Console):
    """A console for texts that come from users' files. Styles are given as ``rich.text.Text``, never as markup."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, highlight=False, emoji=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        """A plain string as text: as wide as it will be drawn."""
        return super().render_str(visible(text), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The pieces of what is drawn; only rich's own control codes stay codes."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(visible(piece.text), piece.style)


def printer() -> PlainConsole:
    """A console for tables: as wide as the terminal or as ``COLUMNS`` says, or 120 columns where neither is known."""
    console = PlainConsole()
    return console if console.is_terminal or os.environ.get("COLUMNS") else PlainConsole(width=120)
