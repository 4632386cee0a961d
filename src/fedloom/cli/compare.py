"""``fedloom compare``: several methods, same data and seeds, one table and a verdict that respects the spread."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedloom.cli import options as o

if TYPE_CHECKING:
    from rich.table import Table

ACCURACIES = {
    "global_accuracy": "global model,\nglobal test",
    "client_accuracy": "clients' models,\nown tests",
    "worst_decile": "worst\ntenth",
    "client_spread": "spread over\nclients",
}
SOMETIMES = {
    "new_accuracy": "new clients' models,\nown tests",
    "withheld_recall": "recall of\nwithheld class",
    "efficiency": "accuracy per selected\nclient, mean of rounds",
}
"""Columns of a second table, each there only when something was measured for it."""


def compare(
    methods: Annotated[
        list[str], typer.Argument(metavar="METHOD METHOD...", help="Such as fedavg fedprox:mu=0.1 local.")
    ],
    config: o.Config = None,
    task: o.Task = None,
    data: o.Data = None,
    target: o.Target = None,
    client_column: o.ClientColumn = None,
    ignore: o.Ignore = None,
    clients: o.Clients = None,
    alpha: o.Alpha = None,
    partition: o.Partition = None,
    model: o.Model = None,
    epochs: o.Epochs = None,
    batch_size: o.BatchSize = None,
    lr: o.Rate = None,
    rounds: o.Rounds = None,
    selection: o.Selection = None,
    fraction: o.Fraction = None,
    number: o.Number = None,
    new_clients: o.NewClients = None,
    seed: o.Seed = None,
    seeds: Annotated[int, typer.Option("--seeds", help="How many seeds; three or more give a spread.")] = 1,
    workers: o.Workers = None,
    execution: o.Execution = None,
    eval_every: o.EvalEvery = None,
    reach: Annotated[
        float | None, typer.Option("--reach", help="Also tell after how many rounds clients reached this accuracy.")
    ] = None,
    settings: o.Set = None,
    out: o.Out = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Compare methods on the same data with the same seeds. Settings of a METHOD follow a colon.

    Example:  fedloom compare --task digits --clients 50 --alpha 0.1 --seeds 3 fedavg fedprox:mu=0.1 fedyogi local
    """
    from fedloom.cli.run import fresh_folder
    from fedloom.runs.api import complete_local
    from fedloom.runs.plans.compare import begin_comparison

    values = o.collect(
        config, settings, alpha, partition, selection,
        task__name=task, task__path=data, task__target=target, task__client_column=client_column, task__ignore=ignore,
        task__clients=clients, task__model=model, local__epochs=epochs, local__batch_size=batch_size, local__lr=lr,
        rounds=rounds, selection__fraction=fraction, selection__number=number, seed=seed, workers=workers,
        execution=execution, eval_every=eval_every, new_clients=new_clients,
    )  # fmt: skip
    values.pop("method", None)
    folder = out or fresh_folder(f"compare-{values.get('task', {}).get('name', 'digits')}")
    begin_comparison(folder, complete_local(values), methods, seeds, reach)
    finish_comparison(folder, None, as_json, quiet)


def finish_comparison(folder: Path, workers: int | None, as_json: bool, quiet: bool) -> None:
    """Do what is left of a comparison, then print its table and verdict and write its report."""
    from fedloom.cli.live import LiveTable
    from fedloom.core.validation import read_toml
    from fedloom.report.run_page import write_report
    from fedloom.report.summary_table import summary, verdict
    from fedloom.runs.config import RunConfig
    from fedloom.runs.plans.compare import PLAN, continue_comparison

    plan = read_toml(folder / PLAN)
    rounds = int(plan["config"].get("rounds", RunConfig().rounds))
    try:
        with LiveTable(plan["methods"], plan["seeds"], rounds, quiet or as_json) as live:
            results = continue_comparison(folder, lambda spec, seed: [live.observer(spec, seed)], workers)
    except KeyboardInterrupt:
        typer.echo(f"stopped: go on with  fedloom resume {folder}", err=True)
        raise
    rows = summary(results, plan.get("reach"))
    if any(record["metrics"] for runs in results.values() for history in runs for record in history.records):
        write_report(results, folder / "report.html")
    if as_json:
        typer.echo(json.dumps({"folder": str(folder), "methods": rows, "verdict": verdict(rows)}))
        return
    print_table(rows, verdict(rows))
    if (folder / "report.html").exists():
        typer.echo(f"Report: {folder / 'report.html'}")


def print_table(rows: list[dict[str, Any]], words: str) -> None:
    """The comparison as a table, each column saying what it is over, what else was measured, and the verdict below."""
    from fedloom.cli.progress import printer
    from fedloom.report.summary_table import accuracy_text

    console = printer()
    cells = []
    for row in rows:
        end = f"{row['rounds']:g}" + (" (stopped)" if row["stopped"] else "")
        costs = [f"{row['megabytes_sent']:,.1f}", f"{row['steps']:,.0f}"]
        cells.append([*(accuracy_text(row, key) for key in ACCURACIES), *costs, end])
    headings = [*ACCURACIES.values(), "MB\nsent", "local\nsteps", "rounds"]
    caption = "mean ± standard deviation over seeds; accuracies in %; sent: down, up and between clients"
    console.print(_table(rows, headings, cells, caption))
    there = {key: heading for key, heading in SOMETIMES.items() if any(row[key] is not None for row in rows)}
    reach = rows[0].get("reach")
    if there or reach is not None:
        asked = [] if reach is None else [f"rounds to {100 * reach:g} %\non own tests"]
        more = [[*(accuracy_text(row, k) for k in there), *(_reached(row) for _ in asked)] for row in rows]
        console.print(_table(rows, [*there.values(), *asked], more, ""))
    for row in rows:
        if row["stopped"]:
            console.print(f"{row['method']}: {row['stopped']}", soft_wrap=True)
    console.print(words, soft_wrap=not console.is_terminal)


def _table(rows: list[dict[str, Any]], headings: list[str], cells: list[list[str]], caption: str) -> Table:
    from rich.table import Table

    table = Table(caption=caption)
    table.add_column("method", overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right")
    for row, line in zip(rows, cells, strict=True):
        table.add_row(row["method"], *line)
    return table


def _reached(row: dict[str, Any]) -> str:
    """After how many rounds a method reached what was asked for, and how many of its seeds did."""
    if row["rounds_to"] is None:
        return "never"
    return f"{row['rounds_to']:.3g}" + (f" ({row['reached']}/{row['seeds']})" if row["reached"] < row["seeds"] else "")
