"""Workflow exports of the n8n automation platform as flows.

An export has ``nodes`` (name, type, typeVersion, parameters, disabled) and ``connections`` by the source's name, its
outputs by connection type (``main``, ``ai_tool``, ...) and number. A node's kind is its type in full. An edge's label
is the connection type, with the output's number unless it is the first (``main 1``: an If's false branch); the
attribute ``input`` is the number of the target's input unless it is the first. Sticky notes are not nodes. Models,
tools and memories that are attached to an agent by ``ai_`` connections lead into it; ``start_and_ends`` adds
Start and Ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fedloom.tasks.flows.flow import Edge, Node, brief
from fedloom.tasks.flows.formats.json_values import JsonValue
from fedloom.tasks.flows.formats.start_and_ends import Reading, with_start_and_ends
from fedloom.tasks.flows.rules import N8N

STICKY_NOTE = "n8n-nodes-base.stickyNote"
LIMIT = 10_000
"""Versions and input numbers must be below this."""


def is_n8n(file: JsonValue) -> bool:
    """Whether a file is a workflow export: an object with nodes and connections."""
    return isinstance(file.value, dict) and {"nodes", "connections"} <= file.value.keys()


def from_n8n(file: JsonValue, draft: bool = False) -> Reading:
    """The flow that a workflow export holds; a draft may be empty and has no Ends."""
    fields = file.fields()
    name = fields["name"].text() if fields.get("name") and fields["name"].value is not None else ""
    nodes: dict[str, Node] = {}
    notes: set[str] = set()
    for value in file.field("nodes").items():
        node = _node(value)
        if node.id in nodes or node.id in notes:
            raise value.field("name").error(f"another node has the name '{brief(node.id)}' too")
        if node.kind == STICKY_NOTE:
            notes.add(node.id)
        else:
            nodes[node.id] = node
    if not nodes and not draft:
        raise file.field("nodes").error("this workflow has no nodes")
    edges = _edges(file.field("connections"), nodes, notes)
    return with_start_and_ends(list(nodes.values()), edges, N8N, is_attachment=is_attachment, draft=draft, name=name)


def edge_of(source: str, target: str, kind: str, output: int, input_: int) -> Edge:
    """A connection as an edge."""
    return Edge(source, target, f"{kind} {output}" if output else kind, {"input": str(input_)} if input_ else {})


def attributes_of(version: float | None, operation: str, resource: str, disabled: bool) -> dict[str, str]:
    """A node's attributes; empty ones are left out."""
    attributes = {} if version is None else {"version": f"{round(version, 2):.6g}"}
    if operation:
        attributes["operation"] = operation
    if resource:
        attributes["resource"] = resource
    if disabled:
        attributes["disabled"] = "yes"
    return attributes


def is_attachment(edge: Edge) -> bool:
    """Whether an edge gives its target something to work with instead of leading on to it."""
    return all(kind.startswith("ai_") for kind in edge.label.split("+"))


def _node(value: JsonValue) -> Node:
    fields = value.fields()
    version = fields.get("typeVersion")
    if version is not None and not (_is_number(version.value) and 0 <= version.value < LIMIT):
        raise version.error(f"the version of a node must be a number from 0 to below {LIMIT:,}")
    parameters = fields["parameters"].fields() if "parameters" in fields else {}
    attributes = attributes_of(
        None if version is None else version.value,
        _text_parameter(parameters, "operation"),
        _text_parameter(parameters, "resource"),
        fields["disabled"].value is True if "disabled" in fields else False,
    )
    return Node(value.field("name").text(), value.field("type").text(), attributes)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text_parameter(parameters: Mapping[str, JsonValue], name: str) -> str:
    """A parameter that is a text, or nothing: others are locators and expressions of the platform."""
    value = parameters.get(name)
    return value.text() if value is not None and isinstance(value.value, str) else ""


def _edges(connections: JsonValue, nodes: Mapping[str, Node], notes: set[str]) -> Iterator[Edge]:
    for source, kinds in connections.fields().items():
        for kind, outputs in kinds.fields_by_text().items():
            for number, output in enumerate(outputs.items()):
                for link in output.items() if output.value is not None else ():
                    target = link.field("node").text()
                    index = link.fields().get("index")
                    into = index.value if index is not None else 0
                    if not (_is_number(into) and into in range(LIMIT)):
                        raise link.error(f"the index of an input must be a whole number from 0 to below {LIMIT:,}")
                    if source in notes or target in notes:
                        continue
                    for end in (source, target):
                        if end not in nodes:
                            raise link.error(f"this connection names the node '{brief(end)}', which does not exist")
                    yield edge_of(source, target, kind, number, int(into))
