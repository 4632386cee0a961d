"""``fedloom graphs``: how a graph is split among clients who share its border nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedloom.cli import options as o
from fedloom.cli.terminal.say import say

if TYPE_CHECKING:
    from fedloom.tasks.graphs.labelled_graph import LabelledGraph
    from fedloom.tasks.graphs.split import GraphSplit

COLUMNS = ("communities", "anchors", "nodes", "edges", "ratio")

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def graphs() -> None:
    """Graphs that are split among clients.

    Example:  fedloom graphs split cora --clients 8
    """


@app.command("split")
def show_split(
    name: Annotated[
        str | None, typer.Argument(help="cora, citeseer, pubmed or twitch; leave it out with --data.")
    ] = None,
    clients: Annotated[int | None, typer.Option("--clients", help="The number of clients (default: 4).")] = None,
    seed: Annotated[int, typer.Option("--seed", help="The seed of the Louvain communities.")] = 0,
    data: Annotated[
        Path | None, typer.Option("--data", help="Your own graph: .npz, or a folder with nodes.csv and edges.csv.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The picture of the split to write.")] = None,
    as_json: o.Json = False,
) -> None:
    """Split a graph by Louvain communities and print what each client holds.

    Both clients of an edge between them hold both of its ends: these nodes are [b]anchors[/b]. The means of the
    citation graphs are shown with table 4.2 of Tavakoli 2023 (Fed-GALA).

    Examples:  fedloom graphs split cora --clients 4
               fedloom graphs split --data my_graph.npz --clients 3 --out split.png
    """
    from fedloom.core.errors import FedloomError, unwritable
    from fedloom.tasks.graphs.read import named_graph, read_graph
    from fedloom.tasks.graphs.split import split_graph

    if (name is None) == (data is None):
        raise FedloomError(
            "name one graph: either by name (fedloom graphs split cora) or as your own file (--data FILE)."
        )
    source = named_graph(name.strip().lower()) if name is not None else read_graph(data)  # type: ignore[arg-type]
    split = split_graph(source, clients, seed)
    summary = _summary(source, split, seed)
    if out is not None:
        from fedloom.tasks.graphs.split_figure import plot_split

        try:
            plot_split(source, split, out)
        except OSError as error:
            raise unwritable(out, error, "name another file with --out") from None
        summary["picture"] = str(out)
    if as_json:
        say(json.dumps(summary))
    else:
        _print(source, summary)


def _summary(source: LabelledGraph, split: GraphSplit, seed: int) -> dict[str, Any]:
    """The numbers to print, as plain values."""
    from dataclasses import asdict

    from fedloom.reproduce.published_tables import published

    held = split.sizes
    count = split.graphs.clients
    table, row = published("gala").tables["split"], f"{source.name}, {count}"
    ids = [split.graphs.original(client).nodes for client in range(count)]
    labelled = [] if source.parts is None else [int(source.parts["train"][some].sum()) for some in ids]
    return {
        "graph": source.name,
        "nodes": len(source),
        "edges": source.graph.edges.shape[1],
        "features": source.graph.features.width,
        "classes": source.classes,
        "self_loops_left_out": source.loops,
        "repeated_edges_left_out": source.repeated,
        "clients": count,
        "seed": seed,
        "names": list(split.names) or [str(client) for client in range(count)],
        "per_client": {**{name: list(column) for name, column in asdict(held).items()}, "labelled": labelled},
        "means": held.means(),
        "thesis": {**table.row(row), "note": table.notes.get(row, "")} if row in table.rows else None,
    }


def _published_row(graph: str, clients: int) -> dict[str, Any] | None:
    """What the thesis prints of a split, and what cannot be right about it; None if it has no such split."""
    import tomllib
    from importlib.resources import files

    file = files("fedloom.reproduce") / "published" / "gala_splits.toml"
    table, name = tomllib.loads(file.read_text("utf-8"))["tables"]["splits"], f"{graph}, {clients}"
    if name not in table["rows"]:
        return None
    return {**dict(zip(table["columns"], table["rows"][name], strict=True)), "note": table["notes"].get(name, "")}


def _print(source: LabelledGraph, summary: dict[str, Any]) -> None:
    from rich.table import Table

    from fedloom.cli.terminal.console import printer

    console, held = printer(), summary["per_client"]
    table = Table(
        title=f"{source.name}: {summary['nodes']:,} nodes, {summary['edges']:,} edges, {summary['classes']} classes"
    )
    table.add_column("client")
    for column in (*COLUMNS[:-1], "anchors / nodes", *(["labelled"] if held["labelled"] else [])):
        table.add_column(column, justify="right")
    for client, name in enumerate(summary["names"]):
        ratio = held["anchors"][client] / max(held["nodes"][client], 1)
        row = [f"{held[column][client]:,}" for column in COLUMNS[:-1]] + [f"{ratio:.3f}"]
        table.add_row(name, *row, *([str(held["labelled"][client])] if held["labelled"] else []), end_section=False)
    table.add_section()
    empty = [""] if held["labelled"] else []
    table.add_row(f"mean (seed {summary['seed']})", *_means(summary["means"]), *empty)
    if summary["thesis"] is not None:
        table.add_row("thesis, table 4.2", *_means(summary["thesis"]), *empty)
    console.print(table)
    if summary["thesis"] is not None and summary["thesis"]["note"]:
        console.print(f"table 4.2: {summary['thesis']['note']}.")
    left = {"self-loops": source.loops, "repeated edges": source.repeated}
    for what, number in left.items():
        if number:
            console.print(f"{number:,} {what} left out.")
    if "picture" in summary:
        console.print(f"picture: {summary['picture']}")


def _means(means: dict[str, float]) -> list[str]:
    return [f"{means[column]:,.2f}" for column in COLUMNS[:-1]] + [f"{means['ratio']:.3f}"]
