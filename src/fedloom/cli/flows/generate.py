"""``fedloom flows generate``: write a synthetic corpus of action flows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedloom.cli import options as o
from fedloom.cli.terminal.say import say

if TYPE_CHECKING:
    from fedloom.tasks.flows.corpus import Corpus


def generate(
    out: Annotated[
        Path, typer.Option("--out", help="A new folder (one sub-folder per organisation), or one .npz file.")
    ],
    clients: Annotated[int, typer.Option("--clients", help="The number of organisations, at most 33.")] = 33,
    largest: Annotated[int, typer.Option("--largest", help="Data points of the largest of the 33.")] = 14_000,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same flows.")] = 0,
    as_json: o.Json = False,
) -> None:
    """Write a synthetic corpus of action flows with the class frequencies and client sizes of the thesis.

    A folder gets one sub-folder per organisation with a JSON file per flow, as the task own-flows reads it. An .npz
    file holds the same and, for small organisations, the extra flows for testing.

    The table shows organisations, flows and points by group of size, and the ceiling: the accuracy of a predictor that
    knows the meaning of every name, which no model can beat.

    Example:  fedloom flows generate --clients 33 --largest 14000 --seed 0 --out corpus
    """
    from fedloom.tasks.flows.synthetic import generator

    _check_is_new(out)
    corpus = generator.generate(clients, largest, seed)
    _write(corpus, out)
    groups = _groups(corpus, clients, largest, seed)
    if as_json:
        say(json.dumps({"written": str(out), "groups": groups}))
        return
    from rich.table import Table

    from fedloom.cli.terminal.console import printer

    table = Table(title=corpus.title, caption=f"written to {out}")
    for column in ("group", "organisations", "flows", "points", "extra flows", "ceiling"):
        table.add_column(column, justify="left" if column == "group" else "right")
    for name, row in groups.items():
        numbers = (f"{row[key]:,}" for key in ("organisations", "flows", "points", "extra_flows"))
        table.add_row(name, *numbers, f"{100 * row['ceiling']:.1f} %")
    printer().print(table)


def _check_is_new(out: Path) -> None:
    from fedloom.core.errors import FedloomError

    if out.exists() and not (out.is_dir() and out.suffix != ".npz" and not any(out.iterdir())):
        raise FedloomError(f"{out} exists already: name a new folder or file with --out.")


def _write(corpus: Corpus, out: Path) -> None:
    from fedloom.core.errors import unwritable
    from fedloom.tasks.flows import write_flow, write_packed

    try:
        if out.suffix == ".npz":
            out.parent.mkdir(parents=True, exist_ok=True)
            write_packed(corpus, out)
            return
        for organisation in corpus.organisations:
            folder = out / organisation.name
            folder.mkdir(parents=True)
            for flow in organisation.flows:
                write_flow(folder / f"{flow.name}.json", flow, corpus.dialect)
    except OSError as error:
        raise unwritable(out, error, "choose another path with --out") from None


def _groups(corpus: Corpus, clients: int, largest: int, seed: int) -> dict[str, dict[str, Any]]:
    """The counts and the ceiling of each group of sizes, as values for JSON."""
    from fedloom.tasks.flows.synthetic.client_sizes import GROUPS, SIZES, group, spread_places
    from fedloom.tasks.flows.synthetic.generator import ceiling

    places = spread_places(clients)
    groups: dict[str, dict[str, Any]] = {}
    for name in GROUPS:
        members = [
            (place, organisation)
            for place, organisation in zip(places, corpus.organisations, strict=True)
            if group(SIZES[place]) == name
        ]
        if members:
            flows = [flow for _, organisation in members for flow in organisation.flows]
            groups[name] = {
                "organisations": len(members),
                "flows": len(flows),
                "points": sum(len(flow.nodes) - 1 for flow in flows),
                "extra_flows": sum(len(organisation.extra) for _, organisation in members),
                "ceiling": sum(ceiling(place, largest, seed) for place, _ in members) / len(members),
            }
    return groups
