"""``fedloom advise``: find the methods to use for small, intermediate and big clients, within some minutes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedloom.cli import options as o
from fedloom.cli.data_notes import notes_entry, say_notes
from fedloom.cli.terminal.say import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedloom.runs.plans.advise.halving import Move


@o.takes_settings(without=("engine", "ray_address", "new_clients", "eval_every", "patience"))
def advise(
    *,
    minutes: Annotated[float, typer.Option("--minutes", help="The approximate duration in minutes.")] = 2.0,
    methods: Annotated[
        str | None,
        typer.Option("--methods", metavar="M,M,...", help="Only these methods (and local), separated by commas."),
    ] = None,
    config: o.Config = None,  # noqa: ARG001  takes_settings reads it
    values: o.Values,
    out: o.Out = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Try many methods on your federation for some minutes, and report which to use for which clients.

    --rounds is how many rounds you intend to train; --lr is the middle of the learning rates to try.

    Example:  fedloom advise --data patients.csv --target outcome --client-column hospital --minutes 5
    """
    from fedloom.cli.run import fresh_plan_folder
    from fedloom.config.method_spec import split_methods

    folder = out or fresh_plan_folder("advise", values)
    finish_advice(folder, values, minutes, None if methods is None else split_methods(methods), as_json, quiet)


def finish_advice(
    folder: Path,
    values: Mapping[str, Any],
    minutes: float,
    methods: Sequence[str] | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run the rest of the tournament, then print the advice and write its report."""
    from fedloom.reports.advice_page import write_advice_page
    from fedloom.runs.plans.advise.advise import run_advice
    from fedloom.runs.plans.members import cores_for

    try:
        with _live_table(60 * minutes, quiet or as_json) as watch:
            advice = run_advice(values, minutes, methods, folder, watch=watch, cores=cores_for(values, None))
        say_notes()
    except KeyboardInterrupt:
        say(f"stopped: continue with  fedloom resume {folder}", err=True)
        raise
    page = write_advice_page(advice, folder / "report.html")
    if as_json:
        say(json.dumps({**advice.as_dict(), **notes_entry()}))
        return
    say(str(advice))
    say(f"Report: {page}")


@contextmanager
def _live_table(seconds: float, quiet: bool) -> Iterator[Callable[[Move], None]]:
    """A table on standard error that shows the current run; nothing if the output is not a terminal."""
    from rich.live import Live
    from rich.table import Table

    from fedloom.cli.terminal.console import PlainConsole

    def table(move: Move) -> Table:
        shown = Table(caption=f"{max(0.0, move.seconds_left):.0f} of {seconds:.0f} s left")
        for heading in ("rung", "candidate", "rounds", "seed", "done in this rung"):
            shown.add_column(heading)
        cells = (f"{move.rung}/{move.rungs}", move.candidate, str(move.rounds), str(move.seed))
        shown.add_row(*cells, f"{move.done}/{move.total}")
        return shown

    console = PlainConsole(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    with Live(
        console=console, auto_refresh=False, transient=True
    ) as live:  # no refresh thread: worker processes are forked
        yield lambda move: live.update(table(move), refresh=True)
