"""Progress bars with the round, a score and the time left. Nothing is shown when the output is not a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

    from fedloom.rounds.score import Score


def headline(metrics: dict[str, float], score: Score) -> str:
    """The metric to show beside a progress bar."""
    called = "" if score.name == "accuracy" else f" {score.title}"
    form = "{:.1%}" if score.is_share else "{:.4g}"
    for name, words in (
        (score.clients, f"clients{called} {form}"),
        (score.shared, f"global{called} {form}"),
        ("client_model/own_test/loss/mean", "loss {:.3g}"),
    ):
        if name in metrics:
            return words.format(metrics[name])
    return ""


@contextmanager
def bars(quiet: bool, unit: str = "round") -> Iterator[Progress]:
    """A progress display on standard error that counts rounds, or another unit."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from fedloom.cli.terminal.console import PlainConsole

    console = PlainConsole(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn(unit, markup=False),
        MofNCompleteColumn(),
        TextColumn("{task.fields[headline]}", markup=False),
        TimeRemainingColumn(),
        console=console,
        auto_refresh=False,  # no refresh thread: worker processes are forked from this process
        disable=quiet or not console.is_terminal,
    ) as progress:
        yield progress


def observer(progress: Progress, label: str, rounds: int, score: Score) -> Any:
    """An observer that advances one bar and shows the score."""
    bar = progress.add_task(label, total=rounds, headline="")

    def observe(record: dict[str, Any]) -> None:
        progress.update(bar, completed=record["round"])
        seen = headline(record["metrics"], score)
        if seen:
            progress.update(bar, headline=seen)
        progress.refresh()

    return observe
