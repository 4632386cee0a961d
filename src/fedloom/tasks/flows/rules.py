"""The rules of action flows, and the dialects that differ in a few of them.

A flow has exactly one start, which only has outgoing edges; it ends in nodes that only have incoming edges; it has
no self-loops and no parallel edges; it is weakly connected. The thesis' platform has 26 kinds and loops only through
``ForEach``; n8n and BPMN have any kind and may loop anywhere. Checks are iterative, so that no file is too deep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.flow import Edge, Flow, Node, brief
from fedloom.tasks.flows.graph_search import reach
from fedloom.tasks.flows.platform_kinds import ENDS, KINDS, START

RULES = {
    "known kinds": "every node has a kind of the dialect",
    "unique ids": "no two nodes have the same id",
    "no dangling edges": "both ends of every edge are nodes of the flow",
    "one start": "exactly one node is a start, and only has outgoing edges",
    "terminal ends": "ends only have incoming edges, and every node without outgoing edges is an end",
    "no self-loops": "no node leads to itself",
    "no parallel edges": "at most one edge leads from a node to another",
    "connected": "the flow is in one piece, whatever the direction of its edges",
    "cycles": "no cycle, or only cycles through certain kinds, as the dialect says",
}
"""The rules in the order in which they are checked; an error names the first broken one."""


@dataclass(frozen=True)
class Dialect:
    """The flows of one platform: the kinds of start and ends, all kinds (None: any), and where cycles are allowed.

    ``plain`` is the label of ordinary edges.
    """

    name: str
    start: str
    ends: frozenset[str]
    kinds: frozenset[str] | None = None
    cycles: Literal["none", "loops", "anywhere"] = "anywhere"
    loops: frozenset[str] = frozenset()
    plain: str = ""


PLATFORM = Dialect(
    "platform",
    start=START,
    ends=frozenset(ENDS),
    kinds=frozenset(KINDS),
    cycles="loops",
    loops=frozenset({"ForEach"}),
)
"""The dialect of the thesis' platform: its kinds of actions are fixed, and cycles lead back to a ``ForEach``."""
N8N = Dialect("n8n", start="Start", ends=frozenset({"End"}), plain="main")
BPMN = Dialect("bpmn", start="Start", ends=frozenset({"End"}))
DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (PLATFORM, N8N, BPMN)}


def validate(flow: Flow, dialect: Dialect) -> None:
    """Raise a `FedloomError` that names the first broken rule and the node or edge that breaks it.

    Args:
        flow: The flow to check.
        dialect: The dialect that has the rules.
    """
    _check(flow, dialect, unfinished=False)


def validate_draft(flow: Flow, dialect: Dialect) -> None:
    """Validate a flow under construction, whose branches need not have reached an end yet."""
    _check(flow, dialect, unfinished=True)


def _check(flow: Flow, dialect: Dialect, unfinished: bool) -> None:
    nodes, edges = flow.nodes, flow.edges
    if dialect.kinds is not None:
        for node in nodes:
            if node.kind not in dialect.kinds:
                raise _violation(flow, "known kinds", f"{_node(node)} has a kind that '{dialect.name}' does not know")
    known = {node.id: node for node in nodes}
    if len(known) < len(nodes):
        twice = Counter(node.id for node in nodes).most_common(1)[0]
        raise _violation(flow, "unique ids", f"{twice[1]} nodes have the id '{brief(twice[0])}'")
    leaving: set[str] = set()
    reached: set[str] = set()
    for edge in edges:
        leaving.add(edge.source)
        reached.add(edge.target)
    if not (leaving <= known.keys() and reached <= known.keys()):
        edge = next(edge for edge in edges if edge.source not in known or edge.target not in known)
        lost = edge.source if edge.source not in known else edge.target
        raise _violation(
            flow, "no dangling edges", f"the edge {_edge(edge)} names the node '{brief(lost)}', which does not exist"
        )
    starts = [node for node in nodes if node.kind == dialect.start]
    if not starts:
        raise _violation(flow, "one start", f"there is no node of kind '{dialect.start}'")
    if len(starts) > 1:
        both = f"'{brief(starts[0].id)}' and '{brief(starts[1].id)}'"
        raise _violation(
            flow, "one start", f"there are {len(starts)} nodes of kind '{dialect.start}', {both} among them"
        )
    if starts[0].id in reached:
        edge = next(edge for edge in edges if edge.target == starts[0].id)
        raise _violation(flow, "one start", f"the edge {_edge(edge)} leads into the start")
    _check_ends(flow, dialect, leaving, unfinished)
    _check_edges(flow)
    _check_connected(flow)
    if dialect.cycles != "anywhere":
        _check_cycles(flow, dialect)


def _check_ends(flow: Flow, dialect: Dialect, leaving: set[str], unfinished: bool) -> None:
    for node in flow.nodes:
        if node.kind in dialect.ends:
            if node.id in leaving:
                edge = next(edge for edge in flow.edges if edge.source == node.id)
                raise _violation(flow, "terminal ends", f"the edge {_edge(edge)} leads out of an end")
        elif node.id not in leaving and not unfinished:
            ends = " or ".join(sorted(dialect.ends))
            raise _violation(flow, "terminal ends", f"{_node(node)} has no outgoing edge, but is not of kind {ends}")


def _check_edges(flow: Flow) -> None:
    pairs = set()
    for edge in flow.edges:
        if edge.source == edge.target:
            raise _violation(flow, "no self-loops", f"the node '{brief(edge.source)}' leads to itself")
        pairs.add((edge.source, edge.target))
    if len(pairs) < len(flow.edges):
        (source, target), times = Counter((edge.source, edge.target) for edge in flow.edges).most_common(1)[0]
        raise _violation(flow, "no parallel edges", f"{times} edges lead from '{brief(source)}' to '{brief(target)}'")


def _check_connected(flow: Flow) -> None:
    beside: dict[str, list[str]] = {node.id: [] for node in flow.nodes}
    for edge in flow.edges:
        beside[edge.source].append(edge.target)
        beside[edge.target].append(edge.source)
    seen = {flow.nodes[0].id}
    reach([flow.nodes[0].id], beside, seen)
    if len(seen) < len(flow.nodes):
        first, apart = flow.nodes[0], next(node for node in flow.nodes if node.id not in seen)
        raise _violation(flow, "connected", f"{_node(apart)} is not connected to {_node(first)}")


def _check_cycles(flow: Flow, dialect: Dialect) -> None:
    """Remove the kinds through which cycles may pass, then nodes without incoming edges: what is left has a cycle."""
    allowed = dialect.loops if dialect.cycles == "loops" else frozenset()
    waiting = {node.id: 0 for node in flow.nodes if node.kind not in allowed}
    after: dict[str, list[str]] = {name: [] for name in waiting}
    for edge in flow.edges:
        if edge.source in waiting and edge.target in waiting:
            after[edge.source].append(edge.target)
            waiting[edge.target] += 1
    free = [name for name, before in waiting.items() if not before]
    while free:
        name = free.pop()
        del waiting[name]
        for other in after[name]:
            waiting[other] -= 1
            if not waiting[other]:
                free.append(other)
    if waiting:
        through = f" that does not pass through {' or '.join(sorted(allowed))}" if allowed else ""
        raise _violation(flow, "cycles", f"there is a cycle{through}: {_path(_cycle(waiting, after))}")


def _cycle(left: Mapping[str, int], after: Mapping[str, Sequence[str]]) -> list[str]:
    """One cycle among nodes that each have a predecessor among them: walk backwards until a node repeats."""
    before = {target: source for source in left for target in after[source] if target in left}
    walk = [next(iter(left))]
    place = {walk[0]: 0}
    while (previous := before[walk[-1]]) not in place:
        place[previous] = len(walk)
        walk.append(previous)
    return [*reversed(walk[place[previous] :]), walk[-1]]


def _violation(flow: Flow, rule: str, what: str) -> FedloomError:
    whose = f" in the flow '{brief(flow.name)}'" if flow.name else ""
    return FedloomError(f"the rule '{rule}' is broken{whose}: {what}.")


def _node(node: Node) -> str:
    return f"the node '{brief(node.id)}' ({brief(node.kind)})"


def _edge(edge: Edge) -> str:
    return f"'{brief(edge.source)}' → '{brief(edge.target)}'"


def _path(names: Sequence[str]) -> str:
    shown = [f"'{brief(name, 30)}'" for name in names]
    return " → ".join([*shown[:6], "…", shown[-1]] if len(shown) > 8 else shown)
