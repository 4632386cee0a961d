"""``fedloom flows recommend`` and ``export``: recommend the next action of a flow, and write the model to one file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedloom.cli import options as o
from fedloom.cli.terminal.say import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fedloom.tasks.flows.flow import Flow
    from fedloom.tasks.flows.learning.recommender import Recommender, UnknownWord
    from fedloom.tasks.flows.learning.saved_flow_model import SavedFlowModel

NOTED = 5
"""The most words that a note names."""

Client = Annotated[
    str | None,
    typer.Option("--client", help="The client whose personalised model of the run is used, by name or number."),
]


def recommend(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="An exported model file, a site's folder, or a run's folder (then give --client)."
        ),
    ],
    flow: Annotated[
        Path,
        typer.Argument(metavar="FLOW", help="The flow under construction: Fedloom's JSON, an n8n export or BPMN 2.0."),
    ],
    top: Annotated[int, typer.Option("--top", help="The number of suggestions.")] = 5,
    after: Annotated[
        str | None,
        typer.Option(
            "--after", help="The node that the next action follows, by id or name (default: the last open end)."
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            "--label",
            help="The label of the edge to it, such as True after an If (default: none; main in n8n).",
        ),
    ] = None,
    client: Client = None,
    trust: o.Trust = None,
    as_json: o.Json = False,
) -> None:
    """Rank the next actions of a flow under construction, with probabilities.

    MODEL is a file that fedloom flows export wrote, the folder of a site whose run has ended, or a run's folder: then
    --client names the client whose model is used.

    FLOW is Fedloom's JSON, an n8n workflow export or BPMN 2.0. It may be unfinished.

    Example:  fedloom flows recommend model.safetensors my_workflow.json --after "Urgent?" --label "main 1"
    """
    recommender = load_recommender(model, client, trust)
    draft = recommender.read(flow)
    question = recommender.question(draft, after, label)
    began = time.perf_counter()
    suggestions = recommender.recommend(draft, top, after, label)
    milliseconds = 1000 * (time.perf_counter() - began)
    unknown = recommender.unknown_words(question)
    edge = question.edges[-1]
    if as_json:
        answer = {
            "flow": draft.name,
            "after": edge.source,
            "label": edge.label,
            "model": _facts(recommender.saved),
            "suggestions": [suggestion._asdict() for suggestion in suggestions],
            "unknown": [word._asdict() for word in unknown],
            "milliseconds": round(milliseconds, 2),
        }
        say(json.dumps(answer))
        return
    say(_header(question, recommender.saved))
    for place, (kind, probability) in enumerate(suggestions, 1):
        say(f"{place:>3}. {probability:>6.1%}  {_class_name(kind)}")
    for note in _notes(unknown, recommender.saved):
        say(f"Note: {note}")
    say(f"Answered in {milliseconds:.0f} ms, once the model was loaded.")


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run of a task on flows.")],
    out: Annotated[Path, typer.Option("--out", help="The file to write: NAME.safetensors.")],
    client: Client = None,
    trust: o.Trust = None,
    as_json: o.Json = False,
) -> None:
    """Write the model that one client of a run predicts with to one file, ready for fedloom flows recommend.

    RUN is the folder of a run of a task on flows: flows, flows-subkind, n8n, bpmn or own-flows.

    Example:  fedloom flows export runs/n8n --client "owner 12" --out model.safetensors
    """
    saved = _model_of_run(run, client, trust)
    saved.write(out)
    if as_json:
        say(json.dumps({"written": str(out), "bytes": out.stat().st_size, **_facts(saved)}))
        return
    say(f"{out}: {_owner(saved)}, {len(saved.classes):,} classes, {out.stat().st_size / 1e6:.1f} MB")


def load_recommender(path: Path, client: str | None, trust: Sequence[str] | None = None) -> Recommender:
    """A recommender from an exported model, from a site's folder, or from a run's folder.

    Args:
        client: Whose model, by name; needed where every client of a run has its own.
        trust: Files of own code that the folder names and that may run.
    """
    from fedloom.tasks.flows.learning.recommender import Recommender

    if not path.is_dir():
        return Recommender.load(path, client)
    from fedloom.deploy.saved_model import saved_model_file

    file = saved_model_file(path)
    if file is not None:
        return Recommender.load(file, client)
    return Recommender(_model_of_run(path, client, trust))


def _model_of_run(run: Path, client: str | None, trust: Sequence[str] | None) -> SavedFlowModel:
    from fedloom.config.trusted_code import TrustedCode
    from fedloom.core.errors import FedloomError
    from fedloom.runs.results.client_model import client_standalone_model
    from fedloom.tasks.flows.learning.saved_flow_model import SavedFlowModel

    saved = client_standalone_model(run, client, TrustedCode(files=tuple(trust or ())))
    if not isinstance(saved, SavedFlowModel):
        raise FedloomError(f"{run} is not a run of a task on flows, so its models cannot recommend actions.")
    return saved


def _facts(saved: SavedFlowModel) -> dict[str, str | int]:
    return {
        "client": saved.client,
        "method": saved.method,
        "task": saved.task,
        "dialect": saved.dialect.name,
        "classes": len(saved.classes),
    }


def _owner(saved: SavedFlowModel) -> str:
    from fedloom.tasks.flows.flow import brief

    return f"the model of '{brief(saved.client)}'" if saved.client else "the model that all clients share"


def _header(question: Flow, saved: SavedFlowModel) -> str:
    """The line above the suggestions."""
    from fedloom.tasks.flows.drawing.kind_families import short_kind
    from fedloom.tasks.flows.flow import brief

    edge = question.edges[-1]
    before = next(node for node in question.nodes if node.id == edge.source)
    kind = "" if before.kind == before.id else f" ({brief(short_kind(before.kind), 40)})"
    way = f" by '{brief(edge.label, 30)}'" if edge.label else ""
    by = f" ({brief(saved.method)})" if saved.method else ""
    return f"After '{brief(before.id)}'{kind}{way}, {_owner(saved)}{by} expects:"


def _class_name(kind: str) -> str:
    """A class as it is printed: an n8n type with its package behind it."""
    from fedloom.tasks.flows.flow import brief

    kind = brief(kind, 100)
    package, dot, name = kind.rpartition(".")
    return f"{name}  ({package})" if dot and "n8n-nodes" in package else kind


def _notes(unknown: Sequence[UnknownWord], saved: SavedFlowModel) -> Iterator[str]:
    """Notes on an answer: the words that the model does not know."""
    from fedloom.tasks.flows.flow import brief

    if unknown:
        words = [f"{word.attribute} '{brief(word.word, 40)}'" for word in unknown[:NOTED]]
        more = f" and {len(unknown) - NOTED:,} more" if len(unknown) > NOTED else ""
        count = "a word" if len(unknown) == 1 else f"{len(unknown):,} words"
        yield f"the model does not know {count} of this flow: {', '.join(words)}{more}."
    if any(word.attribute == "label" for word in unknown):
        labels = [f"'{brief(label, 30)}'" for label in saved.schema.edge["label"].tokens if label]
        shown = ", ".join(labels[:12]) + (" ..." if len(labels) > 12 else "")
        yield f"the labels it knows: {shown}."
