"""``fedloom audit``: attack a run with everything that applies, with and without defences, within some minutes."""

from __future__ import annotations

import json
import time
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

    from fedloom.audits.of_run.play.schedule import NextCell
    from fedloom.audits.of_run.result import Audit


def run_file(text: str) -> Path:
    """The run file; a deployment has a command of its own.

    Args:
        text: The path.
    """
    from fedloom.deploy.participant_folder import SERVER_FILE, SITE_FILE

    path = Path(text)
    if any((path / name).is_file() for name in (SERVER_FILE, SITE_FILE)):
        raise typer.BadParameter(
            f"{path} is a folder of a deployment, whose data are elsewhere: judge its plan with fedloom deploy audit, "
            "or name the run file that was simulated."
        )
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder: name a run file, such as {path / 'config.toml'}.")
    return path


@o.takes_settings(without=("engine", "ray_address", "workers", "eval_every", "patience"))
def audit(
    *,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN.toml]", parser=run_file, help="A TOML file with settings; options override it."),
    ] = None,
    method: o.Method = None,
    minutes: Annotated[float, typer.Option("--minutes", help="How long it may take.")] = 2.0,
    defence: Annotated[
        list[str] | None,
        typer.Option(
            "--defence",
            metavar="KEY=VALUE",
            help="Protect the run with this, as --set takes it; several settings of one defence in quotes. Repeatable "
            "(default: a robust rule, a secure sum, and noise).",
        ),
    ] = None,
    values: o.Values,
    out: o.Out = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Attack a run with everything that applies, with and without defences, and write what leaked and what broke.

    DIR/audit.html has a paragraph for a data-protection officer and a table for an engineer; DIR/audit.json the same
    for machines. The same command continues a stopped audit.

    Example:  fedloom audit run.toml --minutes 10 --defence channel=securesum --defence aggregation=median --out DIR
    """
    began = time.monotonic() - time.process_time()  # the start of Python is part of the minutes
    from fedloom.cli.run import fresh_plan_folder
    from fedloom.config.method_spec import with_method
    from fedloom.config.python_objects import refuse_to_run, without_replaced_objects

    where = "the configuration" if file is None else str(file)
    if method is not None:
        values = without_replaced_objects(with_method(values, method), values)
    refuse_to_run(values, where)
    finish_audit(out or fresh_plan_folder("audit", values), values, minutes, defence, as_json, quiet, began)


def finish_audit(
    folder: Path,
    values: Mapping[str, Any],
    minutes: float,
    defences: Sequence[str] | None,
    as_json: bool,
    quiet: bool,
    began: float | None = None,
) -> None:
    """Play what is left of an audit, then print its assessment."""
    from fedloom.audits.of_run.run_audit import run_audit

    try:
        with _live_table(quiet or as_json) as watch:
            found = run_audit(values, minutes, defences, folder, watch=watch, began=began)
        say_notes()
    except KeyboardInterrupt:
        say(f"stopped: the same command continues it, and so does  fedloom resume {folder}", err=True)
        raise
    _print(found, folder, as_json)


def _print(found: Audit, folder: Path, as_json: bool) -> None:
    from fedloom.audits.of_run.run_audit import PAGE

    if as_json:
        say(json.dumps({"folder": str(folder), **found.as_dict(), **notes_entry()}, allow_nan=False))
        return
    say(str(found))
    say(f"\nPage: {folder / PAGE}")


@contextmanager
def _live_table(quiet: bool) -> Iterator[Callable[[NextCell], None]]:
    """A line on standard error that shows the current attack; nothing if the output is not a terminal."""
    from rich.live import Live
    from rich.table import Table

    from fedloom.cli.terminal.console import PlainConsole

    def table(move: NextCell) -> Table:
        shown = Table(caption=f"{max(0.0, move.seconds_left):.0f} s left")
        for heading in ("attack", "run", "seed", "done"):
            shown.add_column(heading)
        shown.add_row(move.cell.probe, move.cell.setting, str(move.cell.seed), f"{move.done}/{move.total}")
        return shown

    console = PlainConsole(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda move: live.update(table(move), refresh=True)
