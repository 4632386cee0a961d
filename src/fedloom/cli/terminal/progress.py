"""Progress bars with the round, a score and the time left. Nothing is shown when the output is not a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

    from fedloom.rounds.score import Score


@contextmanager
def bars(quiet: bool, unit: str = "round") -> Iterator[Progress]:
    """A progress display on standard error that counts rounds, or another unit."""
    from fedloom.cli.terminal.console import PlainConsole
    from fedloom.runs.callbacks.progress import rich_bar

    console = PlainConsole(stderr=True)
    with rich_bar(console, unit, hidden=quiet or not console.is_terminal) as progress:
        yield progress


def observer(progress: Progress, label: str, rounds: int, score: Score) -> Any:
    """An observer that advances one bar and shows the score."""
    from fedloom.runs.callbacks.progress import headline

    bar = progress.add_task(label, total=rounds, headline="")

    def observe(record: dict[str, Any]) -> None:
        progress.update(bar, completed=record["round"])
        seen = headline(record["metrics"], score)
        if seen:
            progress.update(bar, headline=seen)
        progress.refresh()

    return observe
