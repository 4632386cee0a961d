"""``fedloom deploy server``, ``client``, ``run`` and ``stop``: the programs of a participant, and the run."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from fedloom.cli import options as o
from fedloom.cli.deploy.options import Folder
from fedloom.cli.terminal.say import say
from fedloom.files.json_text import parse_json


def server(folder: Folder) -> None:
    """Run a deployment's server: Flower's SuperLink on loopback, behind nginx. Ctrl-C ends it."""
    from fedloom.deploy.operate.run_server import run_server

    run_until_stopped(lambda: run_server(folder, _say))


def client(folder: Folder) -> None:
    """Run a site: check its data, connect, train on request. Ctrl-C ends it; its state stays on its disk."""
    from fedloom.deploy.operate.run_site import run_site

    run_until_stopped(lambda: run_site(folder, _say))


def run(
    folder: Folder,
    new: Annotated[
        bool,
        typer.Option("--new", help="Begin a new run with the current sites, when the last one has ended; it is kept."),
    ] = False,
    from_round: Annotated[
        int | None, typer.Option("--from-round", help="Continue after this earlier round; later rounds are discarded.")
    ] = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Start the run of a deployment whose server and sites are up, or continue it.

    Shows the same progress as a simulation and writes the same folder, in the server's folder, with a report. Ctrl-C
    stops watching; the run continues, and the same command watches it again. [b]fedloom deploy stop[/b] ends it.
    """
    from fedloom.cli.terminal.progress import bars, observer
    from fedloom.deploy.operate.commands import run as play
    from fedloom.deploy.protocol.blueprint import Blueprint
    from fedloom.deploy.settings import load_server
    from fedloom.metrics.make_metrics import make_metrics
    from fedloom.rounds.score import score_from

    load_server(folder)
    config = Blueprint.load(folder).config
    score = score_from(make_metrics(tuple(config.task.metrics)))
    with contextlib.ExitStack() as screen:
        progress = screen.enter_context(bars(quiet or as_json))
        show = observer(progress, folder.resolve().parent.name, config.rounds, score)

        def report(done: Path) -> None:
            screen.close()  # the bar ends above the report
            _report(done, as_json)

        try:
            play(folder, _say if not (quiet or as_json) else lambda _: None, show, new, from_round, report)
        except KeyboardInterrupt:
            screen.close()
            say(f"the run continues: watch it again with  fedloom deploy run {folder}", err=True)
            raise


def stop(folder: Folder) -> None:
    """Stop a participant's programs, and at the server its run. Everything can be continued later."""
    from fedloom.deploy.operate.commands import stop as end

    say("stopped" if end(folder) else "nothing was running")


def run_until_stopped(work: Callable[[], None]) -> None:
    """Do work that lasts until Ctrl-C."""
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        work()
    except KeyboardInterrupt:
        say("stopped", err=True)


def _say(text: str) -> None:
    say(text, err=True)


def _report(folder: Path, as_json: bool) -> None:
    from fedloom.cli.run import fail_if_stopped, show_result
    from fedloom.runs.results.history import History

    history = History.load(folder)
    show_result(history, folder, as_json)
    cross = folder / "cross_site.json"
    if cross.exists() and not as_json:
        _print_cross(parse_json(cross.read_text()))
    fail_if_stopped({history.label: history.stopped})


def _print_cross(found: dict[str, Any]) -> None:
    from rich.table import Table

    from fedloom.cli.terminal.console import printer

    table = Table(title=found["what"])
    for name in ("model of", *found["sites"]):
        table.add_column(name, justify="left" if name == "model of" else "right")
    for name, scores in zip(found["models"], found["scores"], strict=True):
        table.add_row(name, *("" if score is None else f"{score:.4g}" for score in scores))
    printer().print(table)
