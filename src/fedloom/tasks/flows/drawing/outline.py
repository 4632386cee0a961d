"""A flow as text: one numbered line per node from the start on, branches indented, joins and loops as arrows.

A chain stays at one indentation; where a node leads to several others, each way begins with ``▸`` and its edge's label.
A node that was written already is pointed at by its number. What hangs on a node without being led to (an agent's model
and tools) stands below it behind ``+``. Iterative, so that no flow is too deep; safe to print whatever a file says.
"""

from __future__ import annotations

from fedloom.tasks.flows.drawing.families import short_kind
from fedloom.tasks.flows.flow import Edge, Flow, Node, brief
from fedloom.tasks.flows.rules import Dialect

DEEPEST = 20
"""Indentation stops growing here: deeper branches would leave the screen."""

CHAIN, BRANCH, HANGING = "", "▸ ", "+ "


def outline(flow: Flow, dialect: Dialect) -> str:
    """The text of a flow, read from its start; edges that join no nodes are left out."""
    nodes = {node.id: node for node in flow.nodes}
    after: dict[str, list[Edge]] = {name: [] for name in nodes}
    before: dict[str, list[Edge]] = {name: [] for name in nodes}
    for edge in flow.edges:
        if edge.source in nodes and edge.target in nodes:
            after[edge.source].append(edge)
            before[edge.target].append(edge)
    starts = [node.id for node in flow.nodes if node.kind == dialect.start]
    led = _led(starts, after)
    column = len(str(len(nodes)))
    number: dict[str, int] = {}
    lines = [_title(flow, dialect), ""]
    for root in (*starts, *(name for name in nodes if name not in led)):
        todo = [(root, 0, CHAIN, "")] if root not in number else []
        while todo:
            name, depth, mark, label = todo.pop()
            seen = name in number
            place = "" if seen else str(number.setdefault(name, len(number) + 1))
            way = f"{brief(label, 30)}: " if label else ""
            arrow = f"→ {number[name]} " if seen else ""
            indent = "  " * min(depth, DEEPEST)
            lines.append(f"{place:>{column}}  {indent}{mark}{way}{arrow}{_described(nodes[name])}")
            if seen:
                continue
            inside = depth + (mark != CHAIN)  # what follows stands below the text of this line, not below its mark
            if mark != HANGING:
                next_mark = BRANCH if len(after[name]) > 1 else CHAIN
                todo += [(edge.target, inside, next_mark, _said(edge)) for edge in reversed(after[name])]
            hanging = [edge for edge in before[name] if edge.source not in led]
            todo += [(edge.source, inside + 1, HANGING, _said(edge)) for edge in reversed(hanging)]
    return "\n".join(lines)


def _led(starts: list[str], after: dict[str, list[Edge]]) -> set[str]:
    """The nodes that can be reached from the starts."""
    led, todo = set(starts), list(starts)
    while todo:
        for edge in after[todo.pop()]:
            if edge.target not in led:
                led.add(edge.target)
                todo.append(edge.target)
    return led


def _title(flow: Flow, dialect: Dialect) -> str:
    name = brief(flow.name, 80) or "A flow"
    return f"{name} ({brief(dialect.name)}): {len(flow.nodes):,} nodes, {len(flow.edges):,} edges"


def _described(node: Node) -> str:
    """A node in words: its kind, what exactly it does, what it is called."""
    kind = brief(short_kind(node.kind), 40)
    detail = brief(node.attributes.get("operation") or node.attributes.get("subkind", ""), 40)
    called = brief(node.attributes.get("name") or node.id)
    called = "" if called.isdigit() or called.lower().rstrip("0123456789 ") == kind.lower() else called
    return " ".join(filter(None, (kind, detail, f"· {called}" if called else "")))


def _said(edge: Edge) -> str:
    """A label, unless it is what every edge of an n8n flow says."""
    return "" if edge.label == "main" else edge.label.removeprefix("ai_")
