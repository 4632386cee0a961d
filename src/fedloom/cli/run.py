"""``fedloom run`` and ``fedloom resume``: one method, one folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedloom.cli import options as o

if TYPE_CHECKING:
    from fedloom.runs.history import History


def run(
    file: Annotated[
        Path | None, typer.Argument(metavar="[RUN.toml]", help="A run's settings; options override them.")
    ] = None,
    task: o.Task = None,
    method: Annotated[
        str | None, typer.Option("--method", help="A method of [b]fedloom list methods[/b], or my_file.py:MyMethod.")
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
    workers: o.Workers = None,
    engine: o.Engine = None,
    ray_address: o.RayAddress = None,
    execution: o.Execution = None,
    eval_every: o.EvalEvery = None,
    settings: o.Set = None,
    out: o.Out = None,
    track: o.Track = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Train one method on one federation. RUN.toml holds settings, for instance another run's config.toml.

    Example:  fedloom run --task digits --method fedprox:mu=0.1 --clients 20 --alpha 0.1 --rounds 30
    """
    from fedloom.runs.api import complete_local, completed, make_task, method_of, with_method
    from fedloom.runs.config import parse
    from fedloom.runs.history import History
    from fedloom.runs.runner import execute, prepare

    values = o.collect(
        file, settings, alpha, partition, selection,
        task__name=task, task__path=data, task__target=target, task__client_column=client_column, task__ignore=ignore,
        task__clients=clients, task__model=model, local__epochs=epochs, local__batch_size=batch_size, local__lr=lr,
        rounds=rounds, selection__fraction=fraction, selection__number=number, seed=seed, workers=workers,
        engine=engine, ray_address=ray_address, execution=execution, eval_every=eval_every, new_clients=new_clients,
    )  # fmt: skip
    if method is not None:
        values = with_method(values, method)
    config = completed(parse(complete_local(values)))
    prepared = prepare(make_task(config), method_of(config), config)
    name = History(prepared.plain).label.rpartition(":")[2]
    folder = out or fresh_folder(f"{config.task.name}-{name}-seed{config.seed}")
    _finish(lambda watch: execute(prepared, folder, watch), folder, config.rounds, track, as_json, quiet)


def resume(
    folder: Annotated[Path, typer.Argument(help="The folder of a run, a comparison, a sweep or an advice.")],
    workers: o.Workers = None,
    engine: o.Engine = None,
    ray_address: o.RayAddress = None,
    track: o.Track = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Go on with a stopped run, comparison, sweep or advice, to the same bytes as if it had never stopped."""
    from fedloom.core.errors import FedloomError
    from fedloom.core.validation import read_toml
    from fedloom.runs.plans import compare as comparison
    from fedloom.runs.plans import sweep
    from fedloom.runs.plans.advise import advise

    several = any((folder / plan).exists() for plan in (comparison.PLAN, sweep.PLAN, advise.PLAN))
    if several and (engine or ray_address):
        raise FedloomError("--engine and --ray-address are for the resume of one run: leave them out here.")
    if (folder / comparison.PLAN).exists():
        from fedloom.cli.compare import finish_comparison

        finish_comparison(folder, workers, as_json, quiet)
        return
    if (folder / sweep.PLAN).exists():
        from fedloom.cli.sweep import finish_sweep

        finish_sweep(folder, workers, as_json, quiet)
        return
    if (folder / advise.PLAN).exists():
        from fedloom.cli.advise import finish_advice

        plan = read_toml(folder / advise.PLAN)
        finish_advice(folder, plan["config"], plan["minutes"], plan.get("methods"), as_json, quiet)
        return
    from fedloom.runs.api import load_config
    from fedloom.runs.api import resume as resume_run

    rounds = load_config(folder).rounds
    where: dict[str, Any] = {"workers": workers, "engine": engine, "ray_address": ray_address}
    _finish(lambda watch: resume_run(folder, observers=watch, **where), folder, rounds, track, as_json, quiet)


def fresh_folder(name: str) -> Path:
    """A folder below ``runs/`` that does not exist yet."""
    candidates = (Path("runs") / (name if n == 1 else f"{name}-{n}") for n in range(1, 1_000_000))
    return next(path for path in candidates if not path.exists())


def _finish(work: Any, folder: Path, rounds: int, track: list[str] | None, as_json: bool, quiet: bool) -> None:
    """Run with a progress bar and trackers; then report, and say what came out."""
    from fedloom.cli.progress import bars, observer
    from fedloom.runs.trackers import tracker

    trackers = [tracker(name, folder, folder.name, rounds) for name in track or []]
    try:
        with bars(quiet or as_json) as progress:
            history: History = work([observer(progress, folder.name, rounds), *trackers])
    except KeyboardInterrupt:
        typer.echo(f"stopped: go on with  fedloom resume {folder}", err=True)
        raise
    told(history, folder, as_json)


def told(history: History, folder: Path, as_json: bool) -> None:
    """Write a finished run's report and say what came out, for people or for machines."""
    from fedloom.report.run_page import write_report

    if any(record["metrics"] for record in history.records):
        write_report({history.label: [history]}, folder / "report.html")
    if as_json:
        typer.echo(json.dumps(_result(history, folder)))
        return
    _print(history, folder)


def _result(history: History, folder: Path) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "method": history.config["method"],
        "rounds": history.records[-1]["round"] if history.records else 0,
        "metrics": history.records[-1]["metrics"] if history.records else {},
        "bytes_up": history.total("bytes_up"),
        "bytes_down": history.total("bytes_down"),
        "bytes_between": history.total("bytes_between"),
        "steps": history.total("steps"),
        "stopped": history.stopped,
    }


def _print(history: History, folder: Path) -> None:
    from rich.table import Table

    from fedloom.cli.progress import printer
    from fedloom.runs.statistics import BYTES

    table = Table(title=f"{history.label} after round {history.records[-1]['round'] if history.records else 0}")
    table.add_column("what was scored on whose data")
    table.add_column("value", justify="right")
    for name, value in history.records[-1]["metrics"].items() if history.records else ():
        table.add_row(name, f"{value:.4g}")
    ways = " / ".join(f"{history.total(way) / 1e6:.2f}" for way in BYTES)
    table.add_row("megabytes sent down / up / between clients", ways)
    table.add_row("local gradient steps", f"{history.total('steps'):,}")
    console = printer()
    console.print(table)
    if history.stopped:
        console.print(f"Stopped: {history.stopped}", soft_wrap=True)
    if (folder / "report.html").exists():
        console.print(f"Report: {folder / 'report.html'}", soft_wrap=True)
