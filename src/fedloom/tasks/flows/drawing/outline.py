"""A flow as text: one numbered line per node from the start on, branches indented, joins and loops as arrows.

A chain stays at one indentation; where a node leads to several others, each branch begins with ``▸`` and its edge's
label. A node that was written already is referred to by its number. Attachments that the start does not reach (an
agent's model and tools) are listed below their node behind ``+``. The text is safe to print whatever a file contains.
"""

from __future__ import annotations

from fedloom.tasks.flows.drawing.kind_families import short_kind
from fedloom.tasks.flows.flow import Edge, Flow, Node, brief
from fedloom.tasks.flows.graph_search import reach
from fedloom.tasks.flows.rules import Dialect

DEEPEST = 20
"""The largest indentation: deeper branches would leave the screen."""

CHAIN, BRANCH, ATTACHED = "", "▸ ", "+ "


def outline(flow: Flow, dialect: Dialect) -> str:
    """The text of a flow, read from its start; edges that join no nodes are left out.

    Args:
        dialect: The dialect of the flow.
    """
    nodes = {node.id: node for node in flow.nodes}
    after: dict[str, list[Edge]] = {name: [] for name in nodes}
    before: dict[str, list[Edge]] = {name: [] for name in nodes}
    for edge in flow.edges:
        if edge.source in nodes and edge.target in nodes:
            after[edge.source].append(edge)
            before[edge.target].append(edge)
    starts = [node.id for node in flow.nodes if node.kind == dialect.start]
    reached = set(starts)
    reach(starts, {name: [edge.target for edge in edges] for name, edges in after.items()}, reached)
    column = len(str(len(nodes)))
    number: dict[str, int] = {}
    lines = [_title(flow, dialect), ""]
    for root in (*starts, *(name for name in nodes if name not in reached)):
        todo = [(root, 0, CHAIN, "")] if root not in number else []
        while todo:
            name, depth, mark, label = todo.pop()
            seen = name in number
            place = "" if seen else str(number.setdefault(name, len(number) + 1))
            way = f"{brief(label, 30)}: " if label else ""
            arrow = f"→ {number[name]} " if seen else ""
            indent = "  " * min(depth, DEEPEST)
            lines.append(f"{place:>{column}}  {indent}{mark}{way}{arrow}{_description(nodes[name])}")
            if seen:
                continue
            inside = depth + (mark != CHAIN)  # what follows is aligned with the text of this line, not with its mark
            if mark != ATTACHED:
                next_mark = BRANCH if len(after[name]) > 1 else CHAIN
                todo += [(edge.target, inside, next_mark, _label(edge)) for edge in reversed(after[name])]
            attached = [edge for edge in before[name] if edge.source not in reached]
            todo += [(edge.source, inside + 1, ATTACHED, _label(edge)) for edge in reversed(attached)]
    return "\n".join(lines)


def _title(flow: Flow, dialect: Dialect) -> str:
    name = brief(flow.name, 80) or "A flow"
    return f"{name} ({brief(dialect.name)}): {len(flow.nodes):,} nodes, {len(flow.edges):,} edges"


def _description(node: Node) -> str:
    """A node in words: its kind, its operation or subkind, its name."""
    kind = brief(short_kind(node.kind), 40)
    detail = brief(node.attributes.get("operation") or node.attributes.get("subkind", ""), 40)
    name = brief(node.attributes.get("name") or node.id)
    name = "" if name.isdigit() or name.lower().rstrip("0123456789 ") == kind.lower() else name
    return " ".join(filter(None, (kind, detail, f"· {name}" if name else "")))


def _label(edge: Edge) -> str:
    """A label; n8n's ``main``, the label of plain edges, is left out."""
    return "" if edge.label == "main" else edge.label.removeprefix("ai_")
