"""Workflow exports of the n8n automation platform as flows.

An export has ``nodes`` (name, type, typeVersion, parameters, disabled) and ``connections`` by the source's name, its
outputs by connection type (``main``, ``ai_tool``, ...) and number. A node's kind is its type in full. An edge's label
is the connection type, with the output's number where it is not the first (``main 1``: an If's false branch); the
attribute ``input`` says which input it goes into where that is not the first. Sticky notes are no nodes. Models, tools
and memories that hang on an agent by ``ai_`` connections lead into it; see ``closing`` for Start and Ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fedloom.tasks.flows.flow import Edge, Node, brief
from fedloom.tasks.flows.formats.closing import Reading, closed
from fedloom.tasks.flows.formats.plain import Place
from fedloom.tasks.flows.rules import N8N

STICKY_NOTE = "n8n-nodes-base.stickyNote"
MOST = 10_000


def is_n8n(file: Place) -> bool:
    """Whether a file is a workflow export: an object with nodes and connections."""
    return isinstance(file.value, dict) and {"nodes", "connections"} <= file.value.keys()


def from_n8n(file: Place, draft: bool = False) -> Reading:
    """The flow that a workflow export holds; a draft may be empty and has no Ends."""
    fields = file.fields()
    name = fields["name"].text() if fields.get("name") and fields["name"].value is not None else ""
    nodes: dict[str, Node] = {}
    notes: set[str] = set()
    for place in file.field("nodes").items():
        node = _node(place)
        if node.id in nodes or node.id in notes:
            raise place.field("name").wrong(f"there is another node called '{brief(node.id)}'")
        if node.kind == STICKY_NOTE:
            notes.add(node.id)
        else:
            nodes[node.id] = node
    if not nodes and not draft:
        raise file.field("nodes").wrong("this workflow has no nodes")
    edges = _edges(file.field("connections"), nodes, notes)
    return closed(list(nodes.values()), edges, N8N, attaches=is_attachment, draft=draft, name=name)


def edge_of(source: str, target: str, kind: str, output: int, input_: int) -> Edge:
    """A connection as an edge."""
    return Edge(source, target, f"{kind} {output}" if output else kind, {"input": str(input_)} if input_ else {})


def attributes_of(version: float | None, operation: str, resource: str, disabled: bool) -> dict[str, str]:
    """A node's attributes, those that say something."""
    found = {} if version is None else {"version": f"{round(version, 2):.6g}"}
    if operation:
        found["operation"] = operation
    if resource:
        found["resource"] = resource
    if disabled:
        found["disabled"] = "yes"
    return found


def is_attachment(edge: Edge) -> bool:
    """Whether an edge gives its target something to work with instead of leading on to it."""
    return all(kind.startswith("ai_") for kind in edge.label.split("+"))


def _node(place: Place) -> Node:
    fields = place.fields()
    version = fields.get("typeVersion")
    if version is not None and not (_is_number(version.value) and 0 <= version.value < MOST):
        raise version.wrong(f"a node's version is a number below {MOST:,}")
    parameters = fields["parameters"].fields() if "parameters" in fields else {}
    attributes = attributes_of(
        None if version is None else version.value,
        _word(parameters, "operation"),
        _word(parameters, "resource"),
        fields["disabled"].value is True if "disabled" in fields else False,
    )
    return Node(place.field("name").text(), place.field("type").text(), attributes)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _word(parameters: Mapping[str, Place], name: str) -> str:
    """A parameter that is a word; others are locators and expressions of the platform."""
    found = parameters.get(name)
    return found.text() if found is not None and isinstance(found.value, str) else ""


def _edges(connections: Place, nodes: Mapping[str, Node], notes: set[str]) -> Iterator[Edge]:
    for source, kinds in connections.fields().items():
        for kind, outputs in kinds.named().items():
            for number, output in enumerate(outputs.items()):
                for link in output.items() if output.value is not None else ():
                    target = link.field("node").text()
                    index = link.fields().get("index")
                    into = index.value if index is not None else 0
                    if not (_is_number(into) and into in range(MOST)):
                        raise link.wrong(f"the index of an input is a whole number below {MOST:,}")
                    if source in notes or target in notes:
                        continue
                    for end in (source, target):
                        if end not in nodes:
                            raise link.wrong(f"this connection is dangling: there is no node '{brief(end)}'")
                    yield edge_of(source, target, kind, number, int(into))
