"""``fedloom compare``: several methods on the same data with the same seeds, one table and a verdict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedloom.cli import options as o
from fedloom.cli.completion import complete_method
from fedloom.cli.data_notes import notes_entry, say_notes
from fedloom.cli.terminal.say import say
from fedloom.config.settings import ResumeSettings

if TYPE_CHECKING:
    from fedloom.rounds.score import Score


AS_IT_WAS = ResumeSettings()
SENT, STEPS, ROUNDS = "MB\nsent", "local\nsteps", "rounds"


def _columns(score: Score) -> dict[str, str]:
    """The scores of a table, and their headings."""
    return {
        f"global_{score.name}": "global model,\nglobal test",
        f"client_{score.name}": "clients' models,\nown tests",
        "pooled": "all clients'\nsamples pooled",
        "worst_decile": "worst\ntenth",
        "client_spread": "spread over\nclients",
    }


def _optional_columns(score: Score) -> dict[str, str]:
    """The columns of a second table; each is shown only if it was measured."""
    return {
        f"new_{score.name}": "new clients' models,\nown tests",
        "withheld_recall": "recall of\nwithheld class",
        "efficiency": f"{score.title} per selected\nclient, mean of rounds",
    }


@o.takes_settings(without=("engine", "ray_address"))
def compare(
    *,
    methods: Annotated[
        list[str],
        typer.Argument(
            metavar="METHOD METHOD...",
            help="For instance fedavg fedprox:mu=0.1 local.",
            autocompletion=complete_method,
        ),
    ],
    config: o.Config = None,  # noqa: ARG001  takes_settings reads it
    seeds: o.Seeds = 1,
    reach: Annotated[
        float | None, typer.Option("--reach", help="Also report after how many rounds clients reached this score.")
    ] = None,
    values: o.Values,
    out: o.Out = None,
    track: o.Track = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Compare methods on the same data with the same seeds. Settings of a METHOD follow a colon.

    With the --out of a comparison, methods, seeds or rounds are added to it; what is there is not run again.

    Example:  fedloom compare --task digits --clients 50 --alpha 0.1 --seeds 3 fedavg fedprox:mu=0.1 fedyogi local
    """
    from fedloom.cli.run import fresh_plan_folder
    from fedloom.core.errors import FedloomError
    from fedloom.runs.plans.compare import make_plan, write_comparison

    values.pop("method", None)
    if len(methods) == 1 and seeds == 1 and out is None:
        raise FedloomError(
            f"{methods[0]} alone has nothing to be compared with: name another method, for instance local, give "
            "--seeds 3 for its spread, or --out FOLDER to add methods later. fedloom run trains one method."
        )
    folder = out or fresh_plan_folder("compare", values)
    write_comparison(folder, make_plan(values, methods, seeds, reach))
    finish_comparison(folder, as_json, quiet, track=track or ())


def finish_comparison(
    folder: Path,
    as_json: bool,
    quiet: bool,
    *,
    changes: ResumeSettings = AS_IT_WAS,
    track: Sequence[str] = (),
) -> None:
    """Run the unfinished runs of a comparison, then print its table and verdict and write its report."""
    from fedloom.api.compare import resume_comparison
    from fedloom.cli.run import fail_if_stopped
    from fedloom.cli.terminal.live import LiveTable, planned_score
    from fedloom.config.schema import RunConfig
    from fedloom.runs.plans.compare import PLAN
    from fedloom.runs.plans.members import cores_for
    from fedloom.runs.plans.plan import read_plan
    from fedloom.runs.results.summaries import common_score

    plan = read_plan(folder, PLAN)
    planned = changes.rounds or int(plan["config"].get("rounds", RunConfig().rounds))
    say_notes()
    try:
        with LiveTable(plan["methods"], plan["seeds"], planned, quiet or as_json, score=planned_score(plan)) as live:
            found = resume_comparison(
                folder,
                changes,
                observers_of=lambda spec, seed: [live.observer(spec, seed)],
                track=track,
                cores=cores_for(plan["config"], changes.workers),
            )
    except KeyboardInterrupt:
        say(f"stopped: continue with  fedloom resume {folder}", err=True)
        raise
    rows, words = found.rows, found.verdict
    if as_json:
        numbers = {"methods": rows, "baselines": found.baselines, "verdict": words, "evidence": found.evidence}
        say(json.dumps({"folder": str(folder), **numbers, **notes_entry()}))
    else:
        print_table(rows, words, common_score(found), found.baselines)
        if (folder / "report.html").exists():
            say(f"Report: {folder / 'report.html'}")
    fail_if_stopped({row["method"]: row["stopped"] for row in rows})


def print_table(rows: list[dict[str, Any]], words: str, score: Score, baselines: Sequence[dict[str, Any]] = ()) -> None:
    """Print the comparison: a table of scores and costs, a table of optional columns, and the verdict.

    Args:
        rows: The rows of the methods.
        words: The verdict.
        score: The score of the task.
        baselines: Rows of the task's baselines, which stand below them.
    """
    from fedloom.cli.terminal.console import printer
    from fedloom.cli.terminal.fitting_table import print_fitting_table
    from fedloom.reports.summary_table import cell_text

    console = printer()
    reach = rows[0].get("reach")
    methods, rows = rows, [*rows, *baselines]
    # a mean of clients' values is not the value over all samples, where a metric does not add up over samples
    columns = {key: heading for key, heading in _columns(score).items() if key != "pooled" or _has_pooled(methods)}
    names = [row["method"] for row in rows]
    cells = {heading: [cell_text(row, key, score) for row in rows] for key, heading in columns.items()}
    costs = {
        SENT: [f"{row['megabytes_sent']:,.1f}" for row in rows],
        STEPS: [f"{row['steps']:,.0f}" for row in rows],
        ROUNDS: [f"{row['rounds']:g}" + (" (stopped)" if row["stopped"] else "") for row in rows],
    }
    spread = [columns[key] for key in ("client_spread", "worst_decile")]
    spare = (ROUNDS, STEPS, spread[0], SENT, spread[1])
    what = "accuracies in %" if score.name == "accuracy" else f"scores: {score.axis}, {score.best} is best"
    caption = f"mean ± standard deviation over seeds; {what}; sent: down, up and between clients"
    print_fitting_table(console, {"method": names, **cells, **costs}, spare, caption, left=["method"])
    optional = _optional_columns(score)
    there = {key: heading for key, heading in optional.items() if any(row[key] is not None for row in methods)}
    if there or reach is not None:
        target = "" if reach is None else f"{100 * reach:g} %" if score.is_share else f"{reach:g}"
        more = {heading: [cell_text(row, key, score) for row in rows] for key, heading in there.items()}
        if reach is not None:
            more[f"rounds to {target}\non own tests"] = [_rounds_to_text(row) for row in rows]
        print_fitting_table(console, {"method": names, **more}, [*more][:0:-1], "", left=["method"])
    console.print(words, soft_wrap=not console.is_terminal)


def _has_pooled(rows: Sequence[dict[str, Any]]) -> bool:
    return any(row["pooled"] is not None for row in rows)


def _rounds_to_text(row: dict[str, Any]) -> str:
    """After how many rounds a method reached the target, and with how many of its seeds."""
    if row.get("rounds_to") is None:
        return "never"
    return f"{row['rounds_to']:.3g}" + (f" ({row['reached']}/{row['seeds']})" if row["reached"] < row["seeds"] else "")
