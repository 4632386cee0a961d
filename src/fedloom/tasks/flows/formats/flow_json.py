"""Fedloom's JSON format of flows, and of dialects.

The format is easy to read: one line per node and per edge (docs/flows.md, "The JSON format"). Reading gives the flow as
the file has it, valid or not: `rules.validate` checks the rules. What is not a flow (an unknown field, a number instead
of a text) is refused with its path in the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from fedloom.core.errors import unknown, unwritable
from fedloom.tasks.flows.flow import Edge, Flow, Node, brief
from fedloom.tasks.flows.formats.json_values import JsonValue
from fedloom.tasks.flows.formats.start_and_ends import Reading
from fedloom.tasks.flows.rules import DIALECTS, Dialect

FORMAT, VERSION = "fedloom-flow", 1

_TOP = ("format", "version", "dialect", "name", "attributes", "nodes", "edges")
_NODE = ("id", "kind", "attributes")
_EDGE = ("source", "target", "label", "attributes")


def write_flow(path: str | Path, flow: Flow, dialect: Dialect) -> None:
    """Write a flow in Fedloom's JSON format.

    Args:
        path: The file to write.
        dialect: The dialect of the flow, which is written with it.
    """
    try:
        Path(path).write_text(to_json(flow, dialect), encoding="utf-8")
    except OSError as error:
        raise unwritable(path, error, "choose another path") from None


def to_json(flow: Flow, dialect: Dialect) -> str:
    """A flow in Fedloom's JSON format; empty names, labels and attributes are left out."""
    head = {"format": FORMAT, "version": VERSION, "dialect": dialect.name, **_not_empty(name=flow.name)}
    head |= _not_empty(attributes=flow.attributes)
    lines = [f"  {_dump(key)}: {_dump(value)}," for key, value in head.items()]
    nodes = [{"id": n.id, "kind": n.kind, **_not_empty(attributes=n.attributes)} for n in flow.nodes]
    edges = [
        {"source": e.source, "target": e.target, **_not_empty(label=e.label, attributes=e.attributes)}
        for e in flow.edges
    ]
    return "\n".join(["{", *lines, f'  "nodes": {_rows(nodes)},', f'  "edges": {_rows(edges)}', "}"]) + "\n"


def from_json(file: JsonValue, dialects: Mapping[str, Dialect] = DIALECTS) -> Reading:
    """The flow that a file of Fedloom's JSON format holds."""
    top = _known_fields(file, _TOP)
    version = file.field("version").value
    if type(version) is not int or version != VERSION:
        raise top["version"].error(f"this Fedloom reads only version {VERSION} of the format")
    name = file.field("dialect").text()
    if name not in dialects:
        raise top["dialect"].error(str(unknown("dialect", brief(name), dialects)).removesuffix("."))
    nodes = []
    for value in file.field("nodes").items():
        fields = _known_fields(value, _NODE)
        nodes.append(Node(value.field("id").text(), value.field("kind").text(), _attributes(fields)))
    edges = []
    for value in file.field("edges").items():
        fields = _known_fields(value, _EDGE)
        label = fields["label"].text() if "label" in fields else ""
        edges.append(Edge(value.field("source").text(), value.field("target").text(), label, _attributes(fields)))
    title = top["name"].text() if "name" in top else ""
    return Reading(Flow(tuple(nodes), tuple(edges), _attributes(top), title), dialects[name])


def dialect_to_json(dialect: Dialect) -> dict[str, object]:
    """A dialect as values that JSON can hold."""
    return {key: sorted(value) if isinstance(value, frozenset) else value for key, value in vars(dialect).items()}


def dialect_from_json(value: JsonValue) -> Dialect:
    """The dialect that `dialect_to_json` made these values of."""
    kinds, cycles = value.field("kinds"), value.field("cycles")
    if cycles.value not in ("none", "loops", "anywhere"):
        raise cycles.error("cycles must be 'none', 'loops' or 'anywhere'")
    return Dialect(
        value.field("name").text(),
        value.field("start").text(),
        _text_set(value.field("ends")),
        None if kinds.value is None else _text_set(kinds),
        cycles.value,
        _text_set(value.field("loops")),
        value.field("plain").text(),
    )


def _text_set(value: JsonValue) -> frozenset[str]:
    return frozenset(item.text() for item in value.items())


def _known_fields(value: JsonValue, known: Iterable[str]) -> dict[str, JsonValue]:
    """The fields of an object, none of which may be unknown."""
    fields = value.fields()
    for name, field in fields.items():
        if name not in known:
            raise field.error(str(unknown("field", brief(name), known)).removesuffix("."))
    return fields


def _attributes(fields: Mapping[str, JsonValue]) -> dict[str, str]:
    return fields["attributes"].texts() if "attributes" in fields else {}


def _not_empty(**values: object) -> dict[str, object]:
    return {key: dict(value) if isinstance(value, Mapping) else value for key, value in values.items() if value}


def _rows(values: list[dict[str, object]]) -> str:
    return "[\n" + ",\n".join(f"    {_dump(value)}" for value in values) + "\n  ]" if values else "[]"


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
