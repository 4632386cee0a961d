"""``fedloom run`` and ``fedloom resume``: train one method into a folder, and continue stopped runs and plans."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer

from fedloom.cli import options as o
from fedloom.cli.data_notes import notes_entry, say_notes
from fedloom.cli.explain_run import explain_run
from fedloom.cli.terminal.say import say
from fedloom.config.settings import ResumeSettings

if TYPE_CHECKING:
    from fedloom.rounds.score import Score
    from fedloom.runs.callbacks.callback import Observer
    from fedloom.runs.results.history import History

STOPPED = 3
"""The exit code when a run stopped before its last round."""
MODELS = "which model on whose data"


@o.takes_settings()
def run(
    *,
    file: Annotated[
        Path | None, typer.Argument(metavar="[RUN.toml]", help="A TOML file with settings; options override it.")
    ] = None,
    method: o.Method = None,
    values: o.Values,
    out: o.Out = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what the run is made of and the way of its messages; train nothing.")
    ] = False,
    track: o.Track = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Train one method on one federation. RUN.toml contains settings, for instance the config.toml of another run.

    Example:  fedloom run --task digits --method fedprox:mu=0.1 --clients 20 --alpha 0.1 --rounds 30
    """
    from fedloom.config.method_spec import with_method
    from fedloom.config.python_objects import refuse_to_run, without_replaced_objects
    from fedloom.config.resolve import method_from_config, resolve, task_from_config
    from fedloom.rounds.score import score_of
    from fedloom.runs.folder.fingerprint import TO_RUN_ANYWAY, refuse_other_task
    from fedloom.runs.prepare import prepare
    from fedloom.runs.results.history import History
    from fedloom.runs.runner import execute

    where = "the configuration" if file is None else str(file)
    if method is not None:
        values = without_replaced_objects(with_method(values, method), values)
    refuse_to_run(values, where)
    config = resolve(values, where)
    prepared = prepare(task_from_config(config), method_from_config(config), config)
    refuse_other_task(config.made_by, prepared.plain["made_by"]["task"], f"the run of {where}", TO_RUN_ANYWAY)
    if explain:
        explain_run(prepared, as_json)
        return
    name = History(prepared.plain).label.rpartition(":")[2]
    folder = out or fresh_folder(f"{config.task.name}-{name}-seed{config.seed}")
    score = score_of(prepared.plain)
    _finish(lambda observers: execute(prepared, folder, observers), folder, config.rounds, score, track, as_json, quiet)


@o.takes_changes
def resume(
    *,
    folder: Annotated[Path, typer.Argument(help="The folder of a run, a comparison, a sweep, an advice or an audit.")],
    changes: ResumeSettings,
    track: o.Track = None,
    trust: Annotated[
        bool,
        typer.Option(
            "--trust", help="Run code that the folder names although it has changed, or the folder is from elsewhere."
        ),
    ] = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Continue a stopped run, comparison, sweep, advice or audit. The result has the same bytes as without the stop.

    A run that diverged:  fedloom resume DIR --from-round 5 --set local.lr=0.01

    Files of own code that the folder names (my_file.py:MyMethod) must be those that it was started with.
    """
    from fedloom.core.errors import FedloomError
    from fedloom.registry.code_consent import trust_changed_code
    from fedloom.runs.plans.plan import PLAN_FILES, with_article

    click.get_current_context().with_resource(trust_changed_code(trust))
    kind = next((PLAN_FILES[file] for file in PLAN_FILES if (folder / file).exists()), None)
    if kind is None:
        _resume_run(folder, changes, track, as_json, quiet)
        return
    if changes.of_a_run:
        names = " and ".join(o.flag_of(one) for one in changes.of_a_run)
        raise FedloomError(
            f"{names}: only the resume of a single run takes this, not that of {with_article(kind)}: leave it out."
        )
    if (changes.rounds or track) and kind != "comparison":
        raise FedloomError(f"--rounds and --track are not for the resume of {with_article(kind)}: leave them out.")
    _finish_plan(kind, folder, changes, track or (), as_json, quiet)


def _resume_run(folder: Path, changes: ResumeSettings, track: list[str] | None, as_json: bool, quiet: bool) -> None:
    """Continue a run with a progress bar."""
    from fedloom.rounds.score import score_of
    from fedloom.runs.folder.load_config import load_config_to_resume
    from fedloom.runs.resume import resume_run

    config = load_config_to_resume(folder)
    planned, score = changes.rounds or config.rounds, score_of({"made_by": config.made_by})

    def work(observers: Sequence[Observer]) -> History:
        return resume_run(folder, changes, observers=observers)

    _finish(work, folder, planned, score, track, as_json, quiet)


def _finish_plan(
    kind: str, folder: Path, changes: ResumeSettings, track: Sequence[str], as_json: bool, quiet: bool
) -> None:
    """Run the unfinished runs of the plan in a folder."""
    if kind == "comparison":
        from fedloom.cli.compare import finish_comparison

        finish_comparison(folder, as_json, quiet, changes=changes, track=track)
    elif kind == "sweep":
        from fedloom.cli.sweep import finish_sweep

        finish_sweep(folder, changes.workers, as_json, quiet)
    elif kind == "audit":
        from fedloom.cli.audit import finish_audit
        from fedloom.runs.plans.plan import read_plan

        plan = read_plan(folder, "audit.toml")
        finish_audit(folder, plan["config"], plan["minutes"], plan.get("defences"), as_json, quiet)
    else:
        from fedloom.cli.advise import finish_advice
        from fedloom.runs.plans.plan import read_plan

        plan = read_plan(folder, "advice.toml")
        finish_advice(folder, plan["config"], plan["minutes"], plan.get("methods"), as_json, quiet)


def fresh_folder(name: str) -> Path:
    """A folder below ``runs/`` that does not exist yet."""
    candidates = (Path("runs") / (name if n == 1 else f"{name}-{n}") for n in range(1, 1_000_000))
    return next(path for path in candidates if not path.exists())


def fresh_plan_folder(kind: str, values: Mapping[str, Any]) -> Path:
    """A folder below ``runs/`` for a plan over a config's values, which does not exist yet."""
    from fedloom.tasks.settings import DEFAULT_TASK

    return fresh_folder(f"{kind}-{values.get('task', {}).get('name', DEFAULT_TASK)}")


def _finish(
    work: Any, folder: Path, rounds: int, score: Score, track: list[str] | None, as_json: bool, quiet: bool
) -> None:
    """Run with a progress bar and trackers, then write the report and print the result."""
    from fedloom.cli.terminal.progress import bars, observer
    from fedloom.runs.callbacks.trackers import make_trackers

    trackers = make_trackers(track or (), folder, folder.name)
    try:
        with bars(quiet or as_json) as progress:
            watch = observer(progress, folder.name, rounds, score)
            history: History = work([lambda _: say_notes(), watch, *trackers])
    except KeyboardInterrupt:
        say(f"stopped: continue with  fedloom resume {folder}", err=True)
        raise
    show_result(history, folder, as_json)
    fail_if_stopped({history.label: history.stopped})


def show_result(history: History, folder: Path, as_json: bool) -> None:
    """Write a finished run's report and print its result, as a table or as JSON."""
    from fedloom.reports.run_page import write_report

    if any(record["metrics"] for record in history.records):
        write_report({history.label: [history]}, folder / "report.html")
    if as_json:
        say(json.dumps({**_result(history, folder), **notes_entry()}))
        return
    _print(history, folder)


def fail_if_stopped(reasons: Mapping[str, str | None]) -> None:
    """Name the runs that stopped before their last round on standard error, and end with exit code 3.

    Args:
        reasons: Why each run stopped; None for those that did not.
    """
    stopped = {label: reason for label, reason in reasons.items() if reason}
    for label, reason in stopped.items():
        say(f"{label} stopped: {reason}", err=True)
    if stopped:
        raise typer.Exit(STOPPED)


def _result(history: History, folder: Path) -> dict[str, Any]:
    from fedloom.reports.summary_table import baseline_rows
    from fedloom.reports.verdict import verdict

    return {
        "folder": str(folder),
        "method": history.config["method"],
        "rounds": history.records[-1]["round"] if history.records else 0,
        "metrics": history.records[-1]["metrics"] if history.records else {},
        "bytes_up": history.total("bytes_up"),
        "bytes_down": history.total("bytes_down"),
        "bytes_between": history.total("bytes_between"),
        "steps": history.total("steps"),
        "baselines": baseline_rows({history.label: [history]}),
        "verdict": verdict({history.label: [history]}),
        "stopped": history.stopped,
        "left_out": sum(len(record.get("excluded", ())) for record in history.records),
    }


def _print(history: History, folder: Path) -> None:
    from fedloom.cli.terminal.console import printer
    from fedloom.cli.terminal.fitting_table import print_fitting_table
    from fedloom.reports.verdict import verdict
    from fedloom.runs.results.summaries import BYTES

    metrics = history.records[-1]["metrics"] if history.records else {}
    columns = {MODELS: list(metrics), "value": [f"{value:.4g}" for value in metrics.values()]}
    for one in history.baselines:
        beside = [one["metrics"].get(name) for name in metrics]
        columns[f"baseline:\n{one['name']}"] = ["" if other is None else f"{other:.4g}" for other in beside]
    sent = " / ".join(f"{history.total(way) / 1e6:.2f}" for way in BYTES)
    costs = f"MB sent down / up / between clients: {sent}; local gradient steps: {history.total('steps'):,}"
    console = printer()
    console.print(f"{history.label} after round {history.records[-1]['round'] if history.records else 0}")
    print_fitting_table(console, columns, [*columns][:1:-1], costs, left=[MODELS])
    left_out = [one["name"] for record in history.records for one in record.get("excluded", ())]
    if left_out:
        names = ", ".join(dict.fromkeys(left_out))
        console.print(f"Left out: {len(left_out)} replies of {names}; metrics.jsonl has the reasons", soft_wrap=True)
    words = verdict({history.label: [history]})
    if words:
        console.print(words, soft_wrap=not console.is_terminal)
    if (folder / "report.html").exists():
        console.print(f"Report: {folder / 'report.html'}", soft_wrap=True)
