"""``fedloom reproduce``: repeat a document's experiment and compare our numbers with its findings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedloom.cli import options as o
from fedloom.cli.terminal.say import say

if TYPE_CHECKING:
    from fedloom.reproduce.study import StudyOutcome


@o.declares_settings
def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="[STUDY]", help="The study; without it, all studies are listed.")
    ] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", help="Seeds 0, 1, ... (default: the study's own).")] = None,
    data: Annotated[str, typer.Option("--data", help="The data, for studies with several: the list names them.")] = "",
    workers: int | None = None,
    settings: o.Set = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The folder for its runs (default: runs/STUDY).", rich_help_panel=o.OUTPUT),
    ] = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Repeat a document's experiment and mark each of its findings: ✓ holds here, ✗ does not, – is not decided.

    [b]fedloom reproduce[/b] lists the studies. The same command continues a stopped study. Its folder contains the
    runs, outcome.json and outcome.md.

    Example:  fedloom reproduce gala-cora --seeds 3 --workers 2
    """
    from fedloom.cli.terminal.live import LiveTable
    from fedloom.config.schema import RunConfig
    from fedloom.core.errors import unknown
    from fedloom.reproduce.studies import STUDIES
    from fedloom.reproduce.study import StudyRequest, run_study
    from fedloom.runs.plans.side_by_side import usable_cores

    if name is None:
        _list()
        return
    if name not in STUDIES:
        raise unknown("study", name, STUDIES)
    study = STUDIES[name]
    corpus = data or (study.data[0] if study.data else "")
    folder = out or Path("runs") / (f"{name}-{corpus}" if corpus else name)
    plan = StudyRequest(
        study.seeds if seeds is None else seeds, folder, workers or usable_cores(), corpus, tuple(settings or ())
    )
    rounds = {member.label: int(member.values.get("rounds", RunConfig().rounds)) for member in study.members(plan)}
    with LiveTable(list(rounds), plan.seeds, rounds, quiet or as_json, what="run") as live:
        outcome = run_study(study, plan.with_observers(lambda label, seed: [live.observer(label, seed)]))
    if as_json:
        say(outcome.to_json())
        return
    _show(outcome)
    say(f"Everything is in {folder}: outcome.md, outcome.json and the runs.")


def _list() -> None:
    from rich.table import Table
    from rich.text import Text

    from fedloom.cli.terminal.console import printer
    from fedloom.reproduce.studies import STUDIES

    table = Table(title="studies", show_header=False)
    for study in STUDIES.values():
        corpora = (f"  (data: {', '.join(study.data)})", "dim") if study.data else ""
        table.add_row(study.name, Text.assemble(study.about, corpora))
    printer().print(table)


def _show(outcome: StudyOutcome) -> None:
    from rich.table import Table
    from rich.text import Text

    from fedloom.cli.terminal.console import printer

    console = printer()
    for part in outcome.tables:
        table = Table(title=part.title)
        for column in part.columns:
            table.add_column(column, justify="left" if column == part.columns[0] else "right")
        for row in part.rows:
            table.add_row(*row)
        console.print(table)
    colours = {"✓": "green", "✗": "red", "–": "dim"}
    for finding in outcome.findings:
        mark = finding.mark
        says = Text.assemble((mark, colours[mark]), f" {finding.says} ", (f"Ours: {finding.ours}", "dim"))
        console.print(says, soft_wrap=True)
    for note in outcome.notes:
        console.print(note, soft_wrap=True)
