"""``fedloom flows``: show action flows, check them, convert them to Fedloom's format, recommend what comes next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedloom.cli import options as o
from fedloom.cli.flows.generate import generate
from fedloom.cli.flows.recommend import export, recommend
from fedloom.cli.flows.serve import serve
from fedloom.cli.terminal.say import say

if TYPE_CHECKING:
    from fedloom.tasks.flows.formats.start_and_ends import Reading

ENDINGS = (".json", ".bpmn", ".xml", ".npz")

flows = typer.Typer(
    no_args_is_help=True,
    help="Show, check, convert and generate action flows; recommend the next action.\n\n"
    "A flow file is Fedloom's JSON, an n8n workflow export or a BPMN 2.0 file, recognised by its content.\n\n"
    "Start with:  fedloom flows show my_workflow.json",
)

FlowFile = Annotated[Path, typer.Argument(metavar="FILE", help="A flow: Fedloom's JSON, an n8n export or BPMN 2.0.")]


@flows.command()
def show(
    file: FlowFile,
    out: Annotated[
        Path | None, typer.Option("--out", help="The picture to write: .png, .svg or .pdf (default: NAME.png).")
    ] = None,
    as_json: o.Json = False,
) -> None:
    """Print a flow as an outline, and draw it as a picture.

    The flow may be under construction: its branches need not have reached an end.

    Example:  fedloom flows show order.json --out order.svg
    """
    from fedloom.core.errors import FedloomError
    from fedloom.tasks.flows import read, validate
    from fedloom.tasks.flows.drawing.outline import outline
    from fedloom.tasks.flows.drawing.picture import draw_flow

    reading = read(file)
    path = out or (None if as_json else Path(f"{file.stem}.png"))
    draw_flow(reading.flow, reading.dialect, path)  # refuses an invalid flow before anything is printed
    try:
        validate(reading.flow, reading.dialect)
        missing = ""
    except FedloomError as error:
        missing = str(error)
    if as_json:
        written = {} if path is None else {"picture": str(path)}
        say(json.dumps({**_facts(reading), "finished": not missing, **written}))
        return
    say(outline(reading.flow, reading.dialect))
    say("")
    if missing:
        say(f"Unfinished: {missing}")
    _print_changes(reading)
    say(f"Picture: {path}")


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
    """Check files: print whether each is a valid flow, or the first rule it breaks; exit with 2 if any is invalid.

    In a folder all .json, .bpmn and .npz files are checked, also in its sub-folders; an .npz is a packed corpus.

    Example:  fedloom flows check order.json exports/
    """
    results = [_check_file(path) for path in _flow_files(files)]
    broken = sum(not result["ok"] for result in results)
    if as_json:
        say(json.dumps({"files": results, "broken": broken}))
    else:
        for result in results:
            say(f"ok      {result['file']}  ({result['what']})" if result["ok"] else f"broken  {result['reason']}")
        if len(results) > 1:
            say(f"{len(results):,} files: {len(results) - broken:,} ok, {broken:,} broken.")
    if broken:
        raise typer.Exit(2)


@flows.command()
def convert(
    file: FlowFile,
    out: Annotated[Path, typer.Option("--out", help="The file to write, in Fedloom's JSON format.")],
    as_json: o.Json = False,
) -> None:
    """Write a flow in Fedloom's JSON format, with its Start and Ends.

    Example:  fedloom flows convert invoice.bpmn --out invoice.json
    """
    from fedloom.tasks.flows import read, validate_draft, write_flow

    reading = read(file)
    validate_draft(reading.flow, reading.dialect)
    write_flow(out, reading.flow, reading.dialect)
    if as_json:
        say(json.dumps({**_facts(reading), "written": str(out)}))
        return
    _print_changes(reading)
    say(f"{out}: {_summary(reading)}")


flows.command()(recommend)
flows.command()(serve)
flows.command()(export)
flows.command()(generate)


def _facts(reading: Reading) -> dict[str, Any]:
    """Facts about a flow, as values for JSON."""
    flow = reading.flow
    return {
        "name": flow.name,
        "dialect": reading.dialect.name,
        "nodes": len(flow.nodes),
        "edges": len(flow.edges),
        "self_loops_dropped": reading.self_loops,
        "parallel_edges_merged": reading.merged,
    }


def _summary(reading: Reading) -> str:
    nodes, edges = len(reading.flow.nodes), len(reading.flow.edges)
    return f"{reading.dialect.name}, {_count_of(nodes, 'node')}, {_count_of(edges, 'edge')}"


def _count_of(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _print_changes(reading: Reading) -> None:
    """Print what was dropped and merged because a flow cannot have it."""
    for count, one, many, what in (
        (reading.self_loops, "self-loop was", "self-loops were", "dropped"),
        (reading.merged, "edge was", "edges were", "merged with another between the same two nodes"),
    ):
        if count:
            say(f"Note: {count:,} {one if count == 1 else many} {what}.")


def _flow_files(paths: list[Path]) -> list[Path]:
    """The given files, and the flow files in the given folders."""
    from fedloom.core.errors import FedloomError

    files: list[Path] = []
    for path in paths:
        inside = (
            sorted(p for p in path.rglob("*") if p.suffix.lower() in ENDINGS and p.is_file())
            if path.is_dir()
            else [path]
        )
        if not inside:
            raise FedloomError(f"there is no flow file ({', '.join(ENDINGS)}) in {path}.")
        files += inside
    return files


def _check_file(path: Path) -> dict[str, Any]:
    """Whether a file is valid, with a summary or the reason, as values for JSON."""
    from fedloom.core.errors import FedloomError
    from fedloom.tasks.flows import read, read_corpus, validate

    try:
        if path.suffix.lower() == ".npz":
            corpus = read_corpus(path)
            all_flows = [flow for one in corpus.organisations for flow in (*one.flows, *one.extra)]
            for flow in all_flows:
                validate(flow, corpus.dialect)
            organisations = _count_of(len(corpus.organisations), "organisation")
            what = f"{corpus.dialect.name}, {_count_of(len(all_flows), 'flow')}, {organisations}"
        else:
            reading = read(path)
            validate(reading.flow, reading.dialect)
            what = _summary(reading)
    except FedloomError as error:
        reason = str(error)
        return {"file": str(path), "ok": False, "reason": reason if str(path) in reason else f"{path}: {reason}"}
    return {"file": str(path), "ok": True, "what": what}
