"""``fedloom run --explain``: what a run is made of and the way of its messages, printed instead of played."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fedloom.cli.terminal.say import say

if TYPE_CHECKING:
    from fedloom.runs.prepare import Prepared


def explain_run(prepared: Prepared, as_json: bool) -> None:
    """Print the stations that the waves of a run pass, and what its parts rely on.

    Args:
        prepared: The run, which is checked and ready to start.
        as_json: Whether to print one JSON object instead of tables.
    """
    found = explanation(prepared)
    if as_json:
        say(json.dumps(found))
        return
    from rich.table import Table

    from fedloom.cli.terminal.console import printer

    say(f"{found['method']} on {found['task']}, {found['clients']:,} clients, execution {found['execution']}\n")
    say("A wave passes these stations on its way out to the clients, and in the reverse order on its way back:\n")
    stations = Table("station", "on the way out", "on the way back", box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for one in found["stations"]:
        stations.add_row(one["station"], one["out"] or "–", one["back"] or "–")
    printer().print(stations)
    if found["relies_on"]:
        say("\nThe parts of this run rely on each other:\n")
        needs = Table("part", "needs that", box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for one in found["relies_on"]:
            needs.add_row(one["part"], one["needs"])
        printer().print(needs)


def explanation(prepared: Prepared) -> dict[str, Any]:
    """What is printed, as plain values."""
    from fedloom.config.compatibility import parts_of
    from fedloom.rounds.exchange.line import describe_line
    from fedloom.runs.results.history import History

    run, config = prepared.composition, prepared.config
    parts = parts_of(config, run.algorithm, run.task, run.execution.name, deployed=False)
    return {
        "method": History(prepared.plain).label,
        "task": run.task.name,
        "clients": run.task.federation.clients,
        "execution": run.execution.name,
        "stations": [{"station": name, "out": out, "back": back} for name, out, back in describe_line(run)],
        "relies_on": [{"part": part.name, "needs": fact.value} for part in parts for fact in part.needs],
    }
