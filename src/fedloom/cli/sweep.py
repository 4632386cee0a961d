"""``fedloom sweep``: all combinations of a grid, one table with the best marked, one figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedloom.cli import options as o

if TYPE_CHECKING:
    from fedloom.runs.plans.sweep import Sweep


def sweep(
    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--grid", metavar="KEY=V,V,...", help="Values of any setting, as in local.lr=0.05,0.1. Repeatable."
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", help="What to sort by, then what else to show (default: clients, global). Repeatable."
        ),
    ] = None,
    config: o.Config = None,
    task: o.Task = None,
    method: Annotated[
        str | None, typer.Option("--method", help="The method, unless the grid has some (default: fedavg).")
    ] = None,
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
    settings: o.Set = None,
    out: o.Out = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Run every combination of some settings with the same seeds, and say which is best.

    Example:  fedloom sweep --method fedprox --grid method.mu=0.01,0.1,1 --grid local.lr=0.05,0.1 --seeds 3
    """
    from fedloom.cli.run import fresh_folder
    from fedloom.core.errors import FedloomError
    from fedloom.runs.api import with_method
    from fedloom.runs.plans.grid import read_grid
    from fedloom.runs.plans.sweep import DEFAULT_METRICS, make_plan, write_plan

    values = o.collect(
        config, settings, alpha, partition, selection,
        task__name=task, task__path=data, task__target=target, task__client_column=client_column, task__ignore=ignore,
        task__clients=clients, task__model=model, local__epochs=epochs, local__batch_size=batch_size, local__lr=lr,
        rounds=rounds, selection__fraction=fraction, selection__number=number, seed=seed, workers=workers,
        execution=execution, eval_every=eval_every, new_clients=new_clients,
    )  # fmt: skip
    swept = read_grid(grid or [])
    if method is not None and "method" in swept:
        raise FedloomError(f"--method {method} and --grid method=... both say what to train with: give one.")
    if "method" not in swept:
        values = with_method(values, method or values.get("method", {}).get("name", "fedavg"))
    if "path" in values.get("task", {}):
        values["task"]["path"] = str(Path(values["task"]["path"]).resolve())
    plan = make_plan(values, swept, seeds, metric or DEFAULT_METRICS)
    folder = out or fresh_folder(f"sweep-{values.get('task', {}).get('name', 'digits')}")
    write_plan(folder, plan)
    finish_sweep(folder, None, as_json, quiet)


def finish_sweep(folder: Path, workers: int | None, as_json: bool, quiet: bool) -> None:
    """Do what is left of a sweep, then print its table and write its figure and report."""
    from fedloom.cli.live import LiveTable
    from fedloom.core.validation import read_toml
    from fedloom.report.sweep_page import write_sweep_page
    from fedloom.runs.config import RunConfig
    from fedloom.runs.plans.sweep import PLAN, members, play
    from fedloom.runs.plans.sweep_table import sweep_verdict

    plan = read_toml(folder / PLAN)
    rounds = {m.label: int(m.values.get("rounds", RunConfig().rounds)) for m in members(plan)}
    try:
        with LiveTable(list(rounds), plan["seeds"], rounds, quiet or as_json, "combination") as live:
            swept = play(folder, plan, lambda name, seed: [live.observer(name, seed)], workers)
    except KeyboardInterrupt:
        typer.echo(f"stopped: go on with  fedloom resume {folder}", err=True)
        raise
    rows = swept.rows
    page = write_sweep_page(swept, folder)
    words = sweep_verdict(rows, swept.metrics)
    if as_json:
        told = {"folder": str(folder), "metrics": swept.metrics, "combinations": rows, "verdict": words}
        typer.echo(json.dumps(told))
        return
    print_sweep(swept, rows, words)
    typer.echo(f"Report: {page}")


def print_sweep(swept: Sweep, rows: list[dict[str, Any]], words: str) -> None:
    """The sweep as a table, the best first and marked."""
    from rich.table import Table

    from fedloom.cli.progress import printer
    from fedloom.runs.plans.grid import short_keys
    from fedloom.runs.plans.sweep_table import MARKS, value_text

    table = Table(caption="mean ± standard deviation over seeds" if rows[0]["seeds"] > 1 else "one seed: no spread")
    for heading in short_keys(swept.grid).values():
        table.add_column(heading, justify="right", overflow="fold")
    for heading in (*(_folded(metric) for metric in swept.metrics), "MB\nsent", "local\nsteps"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for row in rows:
        table.add_row(
            *map(str, row["settings"].values()),
            *(value_text(row, metric) for metric in swept.metrics),
            f"{row['megabytes_sent']:,.1f}",
            f"{row['steps']:,.0f}",
            MARKS[row["mark"]],
            style="bold" if row["mark"] == "best" else None,
        )
    console = printer()
    console.print(table)
    for row in rows:
        if row["stopped"]:
            console.print(f"{row['label']}: {row['stopped']}", soft_wrap=True)
    console.print(words, soft_wrap=not console.is_terminal)


def _folded(metric: str) -> str:
    """A metric's name as a heading: which model, on what, what of it."""
    return metric.replace("/", "\n", 1).replace("_", " ")
