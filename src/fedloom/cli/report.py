"""``fedloom report``: figures and tables of finished runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedloom.cli import options as o
from fedloom.cli.terminal.say import say


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR DIR...", help="Folders of runs or comparisons, or folders that contain runs."),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="The page to write (default: report.html in the first folder).")
    ] = None,
    as_json: o.Json = False,
) -> None:
    """Write one self-contained HTML page about some runs, and print their table.

    Example:  fedloom report runs/digits-fedavg-seed0 runs/digits-fedprox-seed0 --out both.html
    """
    from fedloom.cli.compare import print_table
    from fedloom.reports.run_page import write_report
    from fedloom.reports.summary_table import baseline_rows, summary
    from fedloom.reports.verdict import evidence, verdict
    from fedloom.runs.plans.compare import histories
    from fedloom.runs.results.summaries import common_score

    found = histories(folders)
    page = write_report(found, out or folders[0] / "report.html")
    rows, score = summary(found), common_score(found)
    if as_json:
        numbers = {
            "methods": rows,
            "baselines": baseline_rows(found),
            "verdict": verdict(found),
            "evidence": evidence(found),
        }
        say(json.dumps({"report": str(page), **numbers}))
        return
    print_table(rows, verdict(found), score, baseline_rows(found))
    say(f"Report: {page}")
