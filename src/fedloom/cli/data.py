"""``fedloom data``: show a federation, or import a data set's official files into the data folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedloom.cli import options as o
from fedloom.cli.terminal.say import say

if TYPE_CHECKING:
    from fedloom.data.federation import Federation

SHOWN_CLIENTS = 30
SHOWN_CLASSES = 12
SET_KEYS = {"dates", "images", "sequences", "sounds", "text"}
"""The settings of a task that say how own data are read, and are tables."""
COUNTED = {"number": "numbers", "labels": "labels", "tokens": "tags"}
"""What the classes of other kinds of target are called."""


@o.declares_settings
def data(
    words: Annotated[
        list[str],
        typer.Argument(metavar="NAME | FILE | get NAME", help="A data set, your own file, or 'get' and a name."),
    ],
    source: Annotated[
        str | None, typer.Option("--from", help="For get: the official file or folder, or a URL to download.")
    ] = None,
    sha256: Annotated[str | None, typer.Option("--sha256", help="For get: the file's checksum.")] = None,
    clients: int | None = None,
    alpha: float | None = None,
    partition: str | None = None,
    target: str | None = None,
    client_column: str | None = None,
    group_column: str | None = None,
    ignore: list[str] | None = None,
    kind: str | None = None,
    empty_labels: str | None = None,
    text: str | None = None,
    client_from: str | None = None,
    file_column: str | None = None,
    skip_unreadable: bool | None = None,
    set: list[str] | None = None,
    seed: int | None = None,
    png: Annotated[Path | None, typer.Option("--png", help="Also draw the counts, as a picture in this file.")] = None,
    as_json: o.Json = False,
) -> None:
    """Show a federation: the samples per client and class, as a table, and on request as a picture.

    Examples:  fedloom data digits --clients 20 --alpha 0.1 --png digits.png
               fedloom data patients.csv --target outcome --client-column hospital
               fedloom data photos/ --set task.images.size=48
               fedloom data reviews.csv --client-column shop --text review
               fedloom data get mnist --from downloads/mnist/
    """
    from fedloom.core.errors import FedloomError, unwritable

    if words[0] == "get":
        if len(words) != 2 or source is None:
            raise FedloomError("name the data set and its source: fedloom data get mnist --from FILE_OR_ADDRESS.")
        _get(words[1], source, sha256, as_json)
        return
    if len(words) > 1:
        raise FedloomError(f"'{' '.join(words)}': name one data set or one file.")
    reading = {
        "empty_labels": empty_labels,
        "text": text,
        "client_from": client_from,
        "file_column": file_column,
        "skip_unreadable": skip_unreadable,
        **_ways_of_reading(set or []),
    }
    given = {key: value for key, value in reading.items() if value is not None}
    federation = _load(
        words[0], clients, alpha, partition, target, client_column, group_column, ignore or [], kind, seed or 0, given
    )
    from fedloom.data.federation_figure import describe, plot_federation

    summary = describe(federation)
    if png is not None:
        try:
            plot_federation(federation, png)
        except OSError as error:
            raise unwritable(png, error, "name another file with --png") from None
        summary["picture"] = str(png)
    if as_json:
        counts = federation.counts().tolist()
        notes = {"data": list(federation.notes)} if federation.notes else {}
        say(json.dumps({**summary, "counts": counts, **notes}))
        return
    for note in federation.notes:
        say(note)
    _print(federation, summary)


def _ways_of_reading(changes: list[str]) -> dict[str, Any]:
    """What ``--set`` says of how own data are read; no other setting matters here."""
    from fedloom.config.resolve import override
    from fedloom.core.errors import FedloomError
    from fedloom.data.tables.tables import name_list

    found: dict[str, Any] = override({}, changes)
    task = found.get("task", {})
    if set(found) - {"task"} or not isinstance(task, dict) or set(task) - SET_KEYS:
        known = name_list([f"task.{key}" for key in sorted(SET_KEYS)])
        raise FedloomError(f"--set {changes[0]}: only {known} change how data are read.")
    return task


def _get(name: str, source: str, sha256: str | None, as_json: bool) -> None:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    from fedloom.cli.terminal.console import PlainConsole
    from fedloom.data.datasets.download import get

    console = PlainConsole(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, disable=as_json or not console.is_terminal) as progress:
        bar = progress.add_task(name, total=None)
        path = get(
            name, source, sha256=sha256, progress=lambda done, total: progress.update(bar, completed=done, total=total)
        )
    say(json.dumps({"file": str(path)}) if as_json else f"{name} is in {path}")


def _load(
    name: str,
    clients: int | None,
    alpha: float | None,
    partition: str | None,
    target: str | None,
    client_column: str | None,
    group_column: str | None,
    ignore: list[str],
    kind: str | None,
    seed: int,
    reading: dict[str, Any],
) -> Federation:
    from fedloom.core.errors import FedloomError
    from fedloom.data.datasets.load import load
    from fedloom.data.partition.partitioner import dirichlet, partitioner
    from fedloom.data.read import read, refuse_unclear_alpha

    if alpha is not None and partition is not None:
        raise FedloomError(f"--alpha {alpha} and --partition {partition} both say how to divide the data: give one.")
    chosen: Any = dirichlet(alpha) if alpha is not None else partitioner(partition) if partition else None
    if Path(name).suffix or Path(name).is_dir():
        label, owner = target or "label", client_column or "client"
        if alpha is not None:
            refuse_unclear_alpha(name, owner, alpha)
        return read(
            name,
            target=label,
            client=owner,
            group=group_column,
            ignore=ignore,
            kind=kind,
            clients=clients,
            partition=chosen,
            seed=seed,
            **reading,
        )
    for key, value in reading.items():
        raise FedloomError(f"{key}={value} is for your own files, and {name} is none of them: leave it out.")
    if group_column is not None:
        raise FedloomError(f"--group-column {group_column} is for your own file, and {name} has groups of its own.")
    return load(name, clients=clients, partition=chosen, seed=seed)


def _print(federation: Federation, summary: dict[str, Any]) -> None:
    from rich.table import Table

    from fedloom.cli.terminal.console import printer

    console = printer()
    facts = Table(show_header=False, title=summary["title"])
    for key, value in summary.items():
        if key == "classes":
            key = COUNTED.get(summary["target"], key)
        facts.add_row(key.replace("_", " "), f"{value:.3g}" if isinstance(value, float) else str(value))
    console.print(facts)
    counts = federation.counts()
    has_classes = 1 < counts.shape[1] <= SHOWN_CLASSES
    table = Table(title="training samples per client" + (" and class" if has_classes else ""))
    table.add_column("client")
    table.add_column("all", justify="right")
    names = federation.class_names or [str(c) for c in range(counts.shape[1])]
    for name in names if has_classes else ():
        table.add_column(str(name)[:8], justify="right")
    for client in range(min(federation.clients, SHOWN_CLIENTS)):
        own = [str(n) if n else "·" for n in counts[client]] if has_classes else []
        table.add_row(federation.name(client)[:24], str(counts[client].sum()), *own)
    if federation.clients > SHOWN_CLIENTS:
        table.caption = f"the first {SHOWN_CLIENTS} of {federation.clients} clients; --png draws all of them"
    console.print(table)
