"""``fedloom sweep``: run all combinations of a grid; one table with the best marked, and one figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedloom.cli import options as o
from fedloom.cli.completion import complete_method
from fedloom.cli.data_notes import notes_entry, say_notes
from fedloom.cli.terminal.say import say

if TYPE_CHECKING:
    from fedloom.runs.plans.sweep import Sweep


@o.takes_settings(without=("engine", "ray_address"))
def sweep(
    *,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--grid", metavar="KEY=V,V,...", help="Values of a setting, for instance local.lr=0.05,0.1. Repeatable."
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help="The metric to choose by (on validation data), then others to report (default: clients, global). "
            "Repeatable.",
        ),
    ] = None,
    config: o.Config = None,  # noqa: ARG001  takes_settings reads it
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            help="The method, unless the grid names methods (default: fedavg).",
            autocompletion=complete_method,
        ),
    ] = None,
    seeds: o.Seeds = 1,
    values: o.Values,
    out: o.Out = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Run every combination of some settings with the same seeds, choose one on validation data, and report test data.

    Example:  fedloom sweep --method fedprox --grid method.mu=0.01,0.1,1 --grid local.lr=0.05,0.1 --seeds 3
    """
    from fedloom.cli.run import fresh_plan_folder
    from fedloom.config.method_spec import with_method
    from fedloom.core.errors import FedloomError
    from fedloom.runs.plans.grid import read_grid
    from fedloom.runs.plans.plan import write_plan
    from fedloom.runs.plans.sweep import DEFAULT_METRICS, PLAN, make_plan

    swept = read_grid(grid or [])
    if method is not None and "method" in swept:
        raise FedloomError(f"--method {method} and --grid method=... both name the method: give one.")
    if "method" not in swept:
        values = with_method(values, method or values.get("method", {}).get("name", "fedavg"))
    plan = make_plan(values, swept, seeds, metric or DEFAULT_METRICS)
    folder = out or fresh_plan_folder("sweep", values)
    write_plan(folder, PLAN, plan)
    finish_sweep(folder, None, as_json, quiet)


def finish_sweep(folder: Path, workers: int | None, as_json: bool, quiet: bool) -> None:
    """Run the unfinished runs of a sweep, then print its table and write its figure and report."""
    from fedloom.cli.run import fail_if_stopped
    from fedloom.cli.terminal.live import LiveTable, planned_score
    from fedloom.config.schema import RunConfig
    from fedloom.reports.sweep_page import write_sweep_page
    from fedloom.runs.plans.members import RunFactory, cores_for
    from fedloom.runs.plans.plan import read_plan
    from fedloom.runs.plans.sweep import PLAN, members, run_sweep

    plan = read_plan(folder, PLAN)
    rounds = {m.label: int(m.values.get("rounds", RunConfig().rounds)) for m in members(plan)}
    say_notes()
    try:
        score = planned_score(plan)
        with LiveTable(list(rounds), plan["seeds"], rounds, quiet or as_json, "combination", score) as live:
            runs = RunFactory(workers=workers, cores=cores_for(plan["config"], workers))
            swept = run_sweep(folder, plan, lambda name, seed: [live.observer(name, seed)], runs)
    except KeyboardInterrupt:
        say(f"stopped: continue with  fedloom resume {folder}", err=True)
        raise
    rows = swept.rows
    page = write_sweep_page(swept, folder)
    if as_json:
        how = {"chosen_by": swept.chosen_by, "metrics": swept.metrics, "set_aside": swept.set_aside}
        say(
            json.dumps(
                {
                    "folder": str(folder),
                    **how,
                    "combinations": rows,
                    "baselines": swept.baselines,
                    "verdict": swept.verdict,
                    **notes_entry(),
                }
            )
        )
    else:
        print_sweep(swept, rows)
        say(f"Report: {page}")
    fail_if_stopped({row["label"]: row["stopped"] for row in rows})


def print_sweep(swept: Sweep, rows: list[dict[str, Any]]) -> None:
    """Print the sweep as a table, with the best combination first and marked, and the verdict."""
    from fedloom.cli.terminal.console import printer
    from fedloom.cli.terminal.fitting_table import print_fitting_table
    from fedloom.runs.plans.grid import short_keys
    from fedloom.runs.plans.sweep_table import MARKS, setting_cells, value_text

    every, settings = [*rows, *swept.baselines], short_keys(swept.grid).values()
    columns: dict[str, list[str]] = dict(
        zip(settings, map(list, zip(*(setting_cells(swept.grid, row) for row in every), strict=True)), strict=True)
    )
    chosen_by, *others = dict.fromkeys((swept.chosen_by, *swept.metrics))
    columns |= {_heading(one): [value_text(row, one) for row in every] for one in (chosen_by, *others)}
    costs = {
        "MB\nsent": [f"{row['megabytes_sent']:,.1f}" for row in every],
        "local\nsteps": [f"{row['steps']:,.0f}" for row in every],
    }
    columns |= costs | {"": [MARKS[row["mark"]] for row in every]}
    caption = "mean ± standard deviation over seeds" if rows[0]["seeds"] > 1 else "one seed: no spread"
    spare = [*reversed(costs), *(_heading(one) for one in reversed(others))]
    styles = ["bold" if row["mark"] == "best" else None for row in every]
    console = printer()
    print_fitting_table(console, columns, spare, caption, left=[""], styles=styles)
    console.print(swept.verdict, soft_wrap=not console.is_terminal)


def _heading(metric: str) -> str:
    """A metric's name as a column heading on three lines."""
    return metric.replace("/", "\n", 2).replace("_", " ")
