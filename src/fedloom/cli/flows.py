"""``fedloom flows``: look at action flows, check them against the rules, bring them into our format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedloom.cli import options as o
from fedloom.cli.generate import generate
from fedloom.cli.recommend import export, recommend

if TYPE_CHECKING:
    from fedloom.tasks.flows.formats.start_and_ends import Reading

ENDINGS = (".json", ".bpmn", ".npz")

flows = typer.Typer(
    no_args_is_help=True,
    help="Action flows: look at them, check them, convert them, ask what comes next.\n\n"
    "A flow file is our JSON, an n8n workflow export or a BPMN 2.0 file; which one is seen from its content.\n\n"
    "Start with:  fedloom flows show my_workflow.json",
)

FlowFile = Annotated[Path, typer.Argument(metavar="FILE", help="A flow: our JSON, an n8n export or BPMN 2.0.")]


@flows.command()
def show(
    file: FlowFile,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where the picture goes: .png, .svg or .pdf (default: NAME.png).")
    ] = None,
    as_json: o.Json = False,
) -> None:
    """Print a flow as an outline, and draw it.

    A flow under construction is shown too: its branches need not have reached an end yet.

    Example:  fedloom flows show order.json --out order.svg
    """
    from fedloom.core.errors import FedloomError
    from fedloom.tasks.flows import read, validate
    from fedloom.tasks.flows.drawing.outline import outline
    from fedloom.tasks.flows.drawing.picture import draw_flow

    reading = read(file)
    path = out or (None if as_json else Path(f"{file.stem}.png"))
    draw_flow(reading.flow, reading.dialect, path)  # refuses what breaks a rule before anything is printed
    try:
        validate(reading.flow, reading.dialect)
        missing = ""
    except FedloomError as error:
        missing = str(error)
    if as_json:
        picture_told = {} if path is None else {"picture": str(path)}
        typer.echo(json.dumps({**_told(reading), "finished": not missing, **picture_told}))
        return
    typer.echo(outline(reading.flow, reading.dialect))
    typer.echo("")
    if missing:
        typer.echo(f"Unfinished: {missing}")
    _print_changes(reading)
    typer.echo(f"Picture: {path}")


@flows.command()
def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Flow files, packed corpora (.npz), or folders of them (.json, .bpmn, .npz)."
        ),
    ],
    as_json: o.Json = False,
) -> None:
    """Say of every file whether it is a flow, or which rule it breaks first; exit with 2 if any does.

    In a folder all .json, .bpmn and .npz files are checked, also those in its sub-folders; an .npz is a packed corpus.

    Example:  fedloom flows check order.json exports/
    """
    results = [_checked(path) for path in _found(files)]
    broken = sum(not result["ok"] for result in results)
    if as_json:
        typer.echo(json.dumps({"files": results, "broken": broken}))
    else:
        for result in results:
            typer.echo(
                f"ok      {result['file']}  ({result['what']})" if result["ok"] else f"broken  {result['reason']}"
            )
        if len(results) > 1:
            typer.echo(f"{len(results):,} files: {len(results) - broken:,} ok, {broken:,} broken.")
    if broken:
        raise typer.Exit(2)


@flows.command()
def convert(
    file: FlowFile,
    out: Annotated[Path, typer.Option("--out", help="The file to write, in our JSON format.")],
    as_json: o.Json = False,
) -> None:
    """Write a flow in our documented JSON format, with its Start and Ends in place.

    Example:  fedloom flows convert invoice.bpmn --out invoice.json
    """
    from fedloom.tasks.flows import read, validate_draft, write_flow

    reading = read(file)
    validate_draft(reading.flow, reading.dialect)
    write_flow(out, reading.flow, reading.dialect)
    if as_json:
        typer.echo(json.dumps({**_told(reading), "written": str(out)}))
        return
    _print_changes(reading)
    typer.echo(f"{out}: {_counted(reading)}")


flows.command()(recommend)
flows.command()(export)
flows.command()(generate)


def _told(reading: Reading) -> dict[str, Any]:
    """A flow in a few facts, ready for JSON."""
    flow = reading.flow
    return {
        "name": flow.name,
        "dialect": reading.dialect.name,
        "nodes": len(flow.nodes),
        "edges": len(flow.edges),
        "self_loops_dropped": reading.self_loops,
        "parallel_edges_merged": reading.merged,
    }


def _counted(reading: Reading) -> str:
    return f"{reading.dialect.name}, {_many(len(reading.flow.nodes), 'node')}, {_many(len(reading.flow.edges), 'edge')}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _print_changes(reading: Reading) -> None:
    """Say what the file had that a flow cannot have."""
    for count, one, many, what in (
        (reading.self_loops, "self-loop was", "self-loops were", "left out"),
        (reading.merged, "edge was", "edges were", "joined with one between the same two nodes"),
    ):
        if count:
            typer.echo(f"Note: {count:,} {one if count == 1 else many} {what}.")


def _found(paths: list[Path]) -> list[Path]:
    """The files that were named, and those in the folders that were named."""
    from fedloom.core.errors import FedloomError

    found: list[Path] = []
    for path in paths:
        inside = (
            sorted(p for p in path.rglob("*") if p.suffix.lower() in ENDINGS and p.is_file())
            if path.is_dir()
            else [path]
        )
        if not inside:
            raise FedloomError(f"there is no flow file ({', '.join(ENDINGS)}) in {path}.")
        found += inside
    return found


def _checked(path: Path) -> dict[str, Any]:
    """What one file is, or why it is none: ready for JSON."""
    from fedloom.core.errors import FedloomError
    from fedloom.tasks.flows import read, read_corpus, validate

    try:
        if path.suffix.lower() == ".npz":
            corpus = read_corpus(path)
            held = [flow for one in corpus.organisations for flow in (*one.flows, *one.extra)]
            for flow in held:
                validate(flow, corpus.dialect)
            what = (
                f"{corpus.dialect.name}, {_many(len(held), 'flow')}, {_many(len(corpus.organisations), 'organisation')}"
            )
        else:
            reading = read(path)
            validate(reading.flow, reading.dialect)
            what = _counted(reading)
    except FedloomError as error:
        reason = str(error)
        return {"file": str(path), "ok": False, "reason": reason if str(path) in reason else f"{path}: {reason}"}
    return {"file": str(path), "ok": True, "what": what}
