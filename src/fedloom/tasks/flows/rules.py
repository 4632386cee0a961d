"""The rules that make a graph an action flow, and the dialects that differ in a few of them.

A flow has exactly one start, which only has outgoing edges; it ends in nodes that only have incoming edges; it has
no self-loops and no parallel edges; it is weakly connected. The thesis' platform knows 26 kinds and loops only through
``ForEach``; n8n and BPMN know any kind and may loop anywhere. Checks are iterative, so that no file is too deep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.flow import Edge, Flow, Node, brief
from fedloom.tasks.flows.platform_kinds import ENDS, KINDS, START

RULES = {
    "known kinds": "every node's kind is one that the dialect knows",
    "unique ids": "no two nodes have the same id",
    "no dangling edges": "both ends of every edge are nodes of the flow",
    "one start": "exactly one node is a start, and only has outgoing edges",
    "terminal ends": "ends only have incoming edges, and every node without outgoing edges is an end",
    "no self-loops": "no node leads to itself",
    "no parallel edges": "at most one edge leads from a node to another",
    "connected": "the flow is in one piece, whichever way its edges point",
    "cycles": "no cycle where the dialect has none; where it loops only through some kinds, no other cycle",
}
"""The rules in the order they are checked: the first broken one is named."""


@dataclass(frozen=True)
class Dialect:
    """How one platform writes flows: the kinds of start and ends, all kinds (None: any), and where cycles may be.

    ``plain`` is the label of the edges that simply lead on.
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
N8N = Dialect("n8n", start="Start", ends=frozenset({"End"}), plain="main")
BPMN = Dialect("bpmn", start="Start", ends=frozenset({"End"}))
DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (PLATFORM, N8N, BPMN)}


def validate(flow: Flow, dialect: Dialect) -> None:
    """Raise a `FedloomError` that names the first broken rule and where; nothing happens to a flow that is whole."""
    _check(flow, dialect, unfinished=False)


def validate_draft(flow: Flow, dialect: Dialect) -> None:
    """The same for a flow under construction, whose branches need not have reached an end yet."""
    _check(flow, dialect, unfinished=True)


def _check(flow: Flow, dialect: Dialect, unfinished: bool) -> None:
    nodes, edges = flow.nodes, flow.edges
    if dialect.kinds is not None:
        for node in nodes:
            if node.kind not in dialect.kinds:
                raise _broken(flow, "known kinds", f"{_named(node)} is of no kind that '{dialect.name}' knows")
    known = {node.id: node for node in nodes}
    if len(known) < len(nodes):
        twice = Counter(node.id for node in nodes).most_common(1)[0]
        raise _broken(flow, "unique ids", f"{twice[1]} nodes have the id '{brief(twice[0])}'")
    leaving: set[str] = set()
    reached: set[str] = set()
    for edge in edges:
        leaving.add(edge.source)
        reached.add(edge.target)
    if not (leaving <= known.keys() and reached <= known.keys()):
        edge = next(edge for edge in edges if edge.source not in known or edge.target not in known)
        lost = edge.source if edge.source not in known else edge.target
        raise _broken(flow, "no dangling edges", f"the edge {_shown(edge)} names '{brief(lost)}', which is no node")
    starts = [node for node in nodes if node.kind == dialect.start]
    if not starts:
        raise _broken(flow, "one start", f"there is no node of kind '{dialect.start}'")
    if len(starts) > 1:
        both = f"'{brief(starts[0].id)}' and '{brief(starts[1].id)}'"
        raise _broken(flow, "one start", f"there are {len(starts)} nodes of kind '{dialect.start}', {both} among them")
    if starts[0].id in reached:
        edge = next(edge for edge in edges if edge.target == starts[0].id)
        raise _broken(flow, "one start", f"the edge {_shown(edge)} leads into the start")
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
                raise _broken(flow, "terminal ends", f"the edge {_shown(edge)} leads out of an end")
        elif node.id not in leaving and not unfinished:
            ends = " or ".join(sorted(dialect.ends))
            raise _broken(flow, "terminal ends", f"nothing leads on from {_named(node)}, which is not of kind {ends}")


def _check_edges(flow: Flow) -> None:
    pairs = set()
    for edge in flow.edges:
        if edge.source == edge.target:
            raise _broken(flow, "no self-loops", f"the node '{brief(edge.source)}' leads to itself")
        pairs.add((edge.source, edge.target))
    if len(pairs) < len(flow.edges):
        (source, target), times = Counter((edge.source, edge.target) for edge in flow.edges).most_common(1)[0]
        raise _broken(flow, "no parallel edges", f"{times} edges lead from '{brief(source)}' to '{brief(target)}'")


def _check_connected(flow: Flow) -> None:
    beside: dict[str, list[str]] = {node.id: [] for node in flow.nodes}
    for edge in flow.edges:
        beside[edge.source].append(edge.target)
        beside[edge.target].append(edge.source)
    todo = [flow.nodes[0].id]
    seen = {flow.nodes[0].id}
    while todo:
        for other in beside[todo.pop()]:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    if len(seen) < len(flow.nodes):
        first, apart = flow.nodes[0], next(node for node in flow.nodes if node.id not in seen)
        raise _broken(flow, "connected", f"nothing joins {_named(apart)} to {_named(first)}")


def _check_cycles(flow: Flow, dialect: Dialect) -> None:
    """Take away the kinds through which cycles may pass, then node after node that nothing leads to: none is left."""
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
        through = f" that passes no {' or '.join(sorted(allowed))}" if allowed else ""
        raise _broken(flow, "cycles", f"there is a cycle{through}: {_path(_cycle(waiting, after))}")


def _cycle(left: Mapping[str, int], after: Mapping[str, Sequence[str]]) -> list[str]:
    """One cycle among nodes each of which is led to by another of them: walk backwards until a node comes again."""
    before = {target: source for source in left for target in after[source] if target in left}
    walk = [next(iter(left))]
    place = {walk[0]: 0}
    while (previous := before[walk[-1]]) not in place:
        place[previous] = len(walk)
        walk.append(previous)
    return [*reversed(walk[place[previous] :]), walk[-1]]


def _broken(flow: Flow, rule: str, what: str) -> FedloomError:
    whose = f" in the flow '{brief(flow.name)}'" if flow.name else ""
    return FedloomError(f"the rule '{rule}' is broken{whose}: {what}.")


def _named(node: Node) -> str:
    return f"the node '{brief(node.id)}' ({brief(node.kind)})"


def _shown(edge: Edge) -> str:
    return f"'{brief(edge.source)}' → '{brief(edge.target)}'"


def _path(names: Sequence[str]) -> str:
    shown = [f"'{brief(name, 30)}'" for name in names]
    return " → ".join([*shown[:6], "…", shown[-1]] if len(shown) > 8 else shown)
