"""The table that fills while a comparison runs: a row per method, with the newest numbers of its current seed.

It is redrawn when a round ends and never from a thread of its own, so that worker processes are forked from a
process with one thread. Silent when piped.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fedloom.runs.history import CLIENTS, GLOBAL

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from fedloom.runs.runner import Observer


class LiveTable:
    """What a comparison has measured so far."""

    def __init__(self, methods: list[str], seeds: int, rounds: int, quiet: bool) -> None:
        from rich.console import Console

        self.seeds, self.rounds, self.began = seeds, rounds, time.monotonic()
        self.rows: dict[str, dict[str, Any]] = {method: {"seed": 0, "round": 0} for method in methods}
        console = Console(stderr=True)
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

        def observe(record: dict[str, Any]) -> None:
            row["round"] = record["round"]
            row.update({name: value for name, value in record["metrics"].items() if name in (CLIENTS, GLOBAL)})
            if self.live is not None:
                self.live.update(self.table(), refresh=True)

        return observe

    def table(self) -> Table:
        """The table as it stands."""
        from rich.table import Table

        done = sum(self.rounds * max(row["seed"] - 1, 0) + row["round"] for row in self.rows.values())
        share = done / (self.rounds * self.seeds * len(self.rows))
        left = (time.monotonic() - self.began) * (1 - share) / share if share else 0.0
        table = Table(caption=f"{share:.0%} done, about {left:.0f} s left")
        for heading in ("method", "seed", "round", "global model,\nglobal test", "clients' models,\nown tests"):
            table.add_column(heading, justify="left" if heading == "method" else "right")
        for method, row in self.rows.items():
            scores = [f"{row[name]:.1%}" if name in row else "" for name in (GLOBAL, CLIENTS)]
            table.add_row(method, f"{row['seed']}/{self.seeds}", f"{row['round']}/{self.rounds}", *scores)
        return table
