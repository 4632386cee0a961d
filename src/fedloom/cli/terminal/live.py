"""The live table of a comparison or a sweep: the newest metrics of each method or combination.

It is redrawn when a round ends and never from another thread, so that worker processes are forked from a process with
one thread. Nothing is shown when the output is not a terminal.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fedloom.metrics.make_metrics import make_metrics
from fedloom.rounds.score import ACCURACY, Score, score_from

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from fedloom.runs.callbacks.callback import Observer


MOST_ROWS = 20
"""If there are more rows, only those that changed last are shown."""


class LiveTable:
    """A live table of what a comparison or a sweep has measured so far."""

    def __init__(
        self,
        methods: Sequence[str],
        seeds: int,
        rounds: int | Mapping[str, int],
        quiet: bool,
        what: str = "method",
        score: Score = ACCURACY,
    ) -> None:
        from fedloom.cli.terminal.console import PlainConsole

        self.score, self.names = score, (score.shared, score.clients)
        self.seeds, self.what, self.began, self.touched = seeds, what, time.monotonic(), 0
        self.rounds = dict.fromkeys(methods, rounds) if isinstance(rounds, int) else rounds
        self.rows: dict[str, dict[str, Any]] = {method: {"seed": 0, "round": 0, "touched": 0} for method in methods}
        self.reached: dict[tuple[str, int], int] = {}
        """The newest round of each run; several go on at once."""
        console = PlainConsole(stderr=True)
        self.live: Live | None = None
        if console.is_terminal and not quiet:
            from rich.live import Live

            self.live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> LiveTable:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.stop()

    def observer(self, method: str, seed: int) -> Observer:
        """An observer that keeps a method's row up to date."""
        row = self.rows[method]
        row.update(seed=row["seed"] + 1, round=0, number=seed)
        self.reached[method, seed] = 0

        def observe(record: dict[str, Any]) -> None:
            self.touched += 1
            row.update(round=record["round"], touched=self.touched)
            self.reached[method, seed] = record["round"]
            row.update({name: value for name, value in record["metrics"].items() if name in self.names})
            if self.live is not None:
                self.live.update(self.table(), refresh=True)

        return observe

    def table(self) -> Table:
        """The current table."""
        from rich.table import Table

        share = sum(self.reached.values()) / (self.seeds * sum(self.rounds.values()))
        left = (time.monotonic() - self.began) * (1 - share) / share if share else 0.0
        newest = sorted(self.rows, key=lambda name: -self.rows[name]["touched"])[:MOST_ROWS]
        more = f"; {len(newest)} of {len(self.rows)} shown" if len(newest) < len(self.rows) else ""
        table = Table(caption=f"{share:.0%} done, about {left:.0f} s left{more}")
        tests = ("global model,\nglobal test", "clients' models,\nown tests")
        if self.score != ACCURACY:
            tests = (f"{tests[0]}\n{self.score.title}", f"{tests[1]}\n{self.score.title}")
        for heading in (self.what, "seed", "round", *tests):
            table.add_column(heading, justify="left" if heading == self.what else "right")
        for name in (name for name in self.rows if name in newest):
            row = self.rows[name]
            scores = [self._text(row[metric]) if metric in row else "" for metric in self.names]
            table.add_row(name, f"{row['seed']}/{self.seeds}", f"{row['round']}/{self.rounds[name]}", *scores)
        return table

    def _text(self, value: float) -> str:
        return f"{value:.1%}" if self.score.is_share else f"{value:.4g}"


def planned_score(plan: Mapping[str, Any]) -> Score:
    """The score of the runs of a plan."""
    return score_from(make_metrics(plan["config"].get("task", {}).get("metrics", ())))
