"""``fedloom flows recommend`` and ``export``: what comes next in a flow, and the model that says so in one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedloom.cli import options as o

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fedloom.tasks.flows.flow import Flow
    from fedloom.tasks.flows.learning.recommender import Strange
    from fedloom.tasks.flows.learning.saved_flow_model import SavedModel

NOTED = 5
"""How many words a note names."""

Client = Annotated[
    str | None,
    typer.Option("--client", help="Whose personalised model of the run, by name (or number)."),
]


def recommend(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="An exported model file, or a run's folder (then give --client).")
    ],
    flow: Annotated[
        Path, typer.Argument(metavar="FLOW", help="The flow under construction: our JSON, an n8n export or BPMN 2.0.")
    ],
    top: Annotated[int, typer.Option("--top", help="How many suggestions.")] = 5,
    after: Annotated[
        str | None,
        typer.Option(
            "--after", help="The node that the next action follows, by id or name (default: the last open end)."
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            "--label", help="The label of the edge to it, such as True after an If (default: none; in n8n, main)."
        ),
    ] = None,
    client: Client = None,
    as_json: o.Json = False,
) -> None:
    """Rank the next actions of a flow under construction, with probabilities.

    MODEL is a file that fedloom flows export wrote, or a run's folder: then --client says whose model is asked.

    FLOW is our JSON, an n8n workflow export or BPMN 2.0. It may be unfinished: what comes next goes where it stops.

    Example:  fedloom flows recommend model.safetensors my_workflow.json --after "Urgent?" --label "main 1"
    """
    from fedloom.tasks.flows.learning.recommender import Recommender

    recommender = Recommender.load(model, client)
    draft = recommender.read(flow)
    asked = recommender.ask(draft, after, label)
    suggestions = recommender.recommend(draft, top, after, label)
    strange = recommender.strange(asked)
    edge = asked.edges[-1]
    if as_json:
        told = {
            "flow": draft.name,
            "after": edge.source,
            "label": edge.label,
            "model": _about(recommender.saved),
            "suggestions": [suggestion._asdict() for suggestion in suggestions],
            "unknown": [word._asdict() for word in strange],
        }
        typer.echo(json.dumps(told))
        return
    typer.echo(_question(asked, recommender.saved))
    for place, (kind, probability) in enumerate(suggestions, 1):
        typer.echo(f"{place:>3}. {probability:>6.1%}  {_shown(kind)}")
    for note in _notes(strange, recommender.saved):
        typer.echo(f"Note: {note}")


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run of a task on flows.")],
    out: Annotated[Path, typer.Option("--out", help="The file to write: NAME.safetensors.")],
    client: Client = None,
    as_json: o.Json = False,
) -> None:
    """Write the model that one client of a run predicts with to one file, ready for fedloom flows recommend.

    RUN is the folder of a run of a task on flows: flows, flows-subkind, n8n, bpmn or own-flows.

    Example:  fedloom flows export runs/n8n --client "owner 12" --out model.safetensors
    """
    from fedloom.tasks.flows.learning.recommender import model_of_run

    saved = model_of_run(run, client)
    saved.write(out)
    if as_json:
        typer.echo(json.dumps({"written": str(out), "bytes": out.stat().st_size, **_about(saved)}))
        return
    typer.echo(f"{out}: {_whose(saved)}, {len(saved.classes):,} classes, {out.stat().st_size / 1e6:.1f} MB")


def _about(saved: SavedModel) -> dict[str, str | int]:
    return {
        "client": saved.client,
        "method": saved.method,
        "task": saved.task,
        "dialect": saved.dialect.name,
        "classes": len(saved.classes),
    }


def _whose(saved: SavedModel) -> str:
    from fedloom.tasks.flows.flow import brief

    return f"the model of '{brief(saved.client)}'" if saved.client else "the model that all clients share"


def _question(asked: Flow, saved: SavedModel) -> str:
    """What was asked, in one line."""
    from fedloom.tasks.flows.drawing.kind_families import short_kind
    from fedloom.tasks.flows.flow import brief

    edge = asked.edges[-1]
    before = next(node for node in asked.nodes if node.id == edge.source)
    kind = "" if before.kind == before.id else f" ({brief(short_kind(before.kind), 40)})"
    way = f" by '{brief(edge.label, 30)}'" if edge.label else ""
    by = f" ({brief(saved.method)})" if saved.method else ""
    return f"After '{brief(before.id)}'{kind}{way}, {_whose(saved)}{by} expects:"


def _shown(kind: str) -> str:
    """A class for people: an n8n type with its package behind it."""
    from fedloom.tasks.flows.flow import brief

    kind = brief(kind, 100)
    package, dot, name = kind.rpartition(".")
    return f"{name}  ({package})" if dot and "n8n-nodes" in package else kind


def _notes(strange: Sequence[Strange], saved: SavedModel) -> Iterator[str]:
    """What a person should know about an answer: the words that the model did not understand."""
    from fedloom.tasks.flows.flow import brief

    if strange:
        words = [f"{word.attribute} '{brief(word.word, 40)}'" for word in strange[:NOTED]]
        more = f" and {len(strange) - NOTED:,} more" if len(strange) > NOTED else ""
        count = "a word" if len(strange) == 1 else f"{len(strange):,} words"
        yield f"the model does not know {count} of this flow: {', '.join(words)}{more}."
    if any(word.attribute == "label" for word in strange):
        labels = [f"'{brief(label, 30)}'" for label in saved.schema.edge["label"].tokens if label]
        shown = ", ".join(labels[:12]) + (" ..." if len(labels) > 12 else "")
        yield f"the labels it knows: {shown}."
