"""The progress bar of runs that Python started, in a terminal or in a notebook: rounds, a score and the time left.

It is redrawn when a round ends and never from another thread, since worker processes are forked from this process.
"""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fedloom.rounds.score import Score
from fedloom.runs.callbacks.callback import Callback
from fedloom.runs.results.history import History

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

Draw = Callable[[str, int, int, str], None]
"""Draws a bar: what is running, how many rounds are done, of how many, and a score."""


class ProgressBar:
    """One bar for all rounds of one or several runs.

    Args:
        draw: Draws it; None shows nothing.
        runs: How many runs there are.
    """

    def __init__(self, draw: Draw | None, runs: int = 1) -> None:
        self.draw, self.runs = draw, runs
        self.reached: dict[RunProgress, int] = {}
        self.left_out = 0
        """The rounds of runs that ended early."""

    def of_run(self) -> list[Callback]:
        """The callback of one of the runs, if anything is shown."""
        return [] if self.draw is None else [RunProgress(self)]


class RunProgress(Callback):
    """Advances a bar by the rounds of one run.

    Args:
        bar: The bar.
    """

    def __init__(self, bar: ProgressBar) -> None:
        self.bar, self.seen = bar, ""

    def run_begins(self, history: History) -> None:
        """Show the bar with what was done until now."""
        self.score, self.rounds = history.score, int(history.config["rounds"])
        self.label = history.label if self.bar.runs == 1 else f"{history.label} with seed {history.config['seed']}"
        self._advance(0)

    def round_ends(self, record: dict[str, Any]) -> None:
        """Advance it."""
        self.seen = headline(record["metrics"], self.score) or self.seen
        self._advance(record["round"])

    def run_ends(self, history: History) -> None:
        """Count no more rounds than were played."""
        self.bar.left_out += self.rounds - self.bar.reached[self]
        self._advance(self.bar.reached[self])

    def _advance(self, number: int) -> None:
        bar = self.bar
        bar.reached[self] = number
        if bar.draw is not None:
            bar.draw(self.label, sum(bar.reached.values()), bar.runs * self.rounds - bar.left_out, self.seen)


@contextmanager
def show_progress(progress: bool | None, runs: int = 1) -> Iterator[ProgressBar]:
    """A bar that is shown in a terminal and in a notebook, and not where the output goes elsewhere.

    Args:
        progress: True shows it anywhere, False nowhere.
        runs: How many runs there are.
    """
    if progress is False:
        yield ProgressBar(None)
    elif in_notebook():
        yield ProgressBar(notebook_bar(), runs)
    elif progress or sys.stderr.isatty():
        from rich.console import Console

        with rich_bar(Console(stderr=True, markup=False, highlight=False, emoji=False)) as display:
            task = display.add_task("", total=None, headline="")

            def draw(label: str, done: int, total: int, score: str) -> None:
                display.update(task, description=label, completed=done, total=total, headline=score)
                display.refresh()

            yield ProgressBar(draw, runs)
    else:
        yield ProgressBar(None)


def rich_bar(console: Console, unit: str = "round", hidden: bool = False) -> Progress:
    """A bar of a terminal that counts rounds, or another unit; ``headline`` is a field of its tasks.

    Args:
        console: Where it is drawn.
        unit: What is counted.
        hidden: Whether nothing is drawn.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn(unit, markup=False),
        MofNCompleteColumn(),
        TextColumn("{task.fields[headline]}", markup=False),
        TimeRemainingColumn(),
        console=console,
        auto_refresh=False,  # no refresh thread: worker processes are forked from this process
        disable=hidden,
    )


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, whose cells show HTML."""
    found = sys.modules.get("IPython")
    shell = None if found is None else found.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def notebook_bar(clock: Callable[[], float] = time.monotonic) -> Draw:
    """A bar in the output of a cell. It needs no widgets: what the cell shows is replaced.

    Args:
        clock: Tells the time.
    """
    from IPython.display import HTML, display

    handles: list[Any] = []
    began = [clock(), 0.0]

    def draw(label: str, done: int, total: int, score: str) -> None:
        if not handles:
            began[:] = [clock(), float(done)]
            handles.append(display(HTML(""), display_id=True))
        spent, new = clock() - began[0], done - began[1]
        left = spent / new * (total - done) if new > 0 else None
        handles[0].update(HTML(bar_html(label, done, total, score, left)))

    return draw


def bar_html(label: str, done: int, total: int, score: str, left: float | None) -> str:
    """A bar as HTML, in the colours of its page.

    Args:
        label: What is running.
        done: How many rounds are done.
        total: How many there are.
        left: How many seconds are left, as far as is known.
    """
    time_left = "" if left is None or done >= total else f"about {_time_text(left)} left"
    texts = [label, f"round {done}/{total}", score, time_left]
    bar = f'<progress value="{done}" max="{total}" aria-label="rounds"></progress>'
    first, *rest = (html.escape(text) for text in texts if text)
    return f"<div>{first} {bar} {' · '.join(rest)}</div>"


def _time_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


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
