"""``fedloom demo``: a comparison that needs no data and no decision."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedloom.cli import options as o
from fedloom.cli.terminal.say import say

METHODS = ("local", "fedavg", "scaffold", "fedseq", "fedrep", "ditto", "fedavg+fedpredict")
SEEDS = 3
ROUNDS, CLIENTS, ALPHA = 20, 20, 0.1


def demo(
    out: Annotated[Path, typer.Option("--out", help="The folder to write.")] = Path("demo"),
    quiet: o.Quiet = False,
) -> None:
    """Compare seven methods on handwritten digits of 20 clients that differ, and write a report.

    It takes about half a minute on two cores and needs no network. The same command shows a finished demo
    again, and continues a stopped one; [b]fedloom watch demo[/b] shows it meanwhile.

    Example:  fedloom demo --out demo
    """
    from fedloom.cli.compare import finish_comparison
    from fedloom.data.partition.partitioner import dirichlet, partition_config
    from fedloom.runs.plans.compare import make_plan, write_comparison

    task = {"name": "digits", "clients": CLIENTS, "partition": partition_config(dirichlet(ALPHA))}
    write_comparison(out, make_plan({"task": task, "rounds": ROUNDS}, METHODS, SEEDS))
    finish_comparison(out, as_json=False, quiet=quiet)
    say("The same with your own table:  fedloom compare --data FILE.csv --target COLUMN --clients 10 fedavg local")
