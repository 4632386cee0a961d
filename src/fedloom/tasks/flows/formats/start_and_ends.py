"""From the graph in a file to a flow that keeps the rules: one Start before it, an End after every last node.

Exports of real platforms have several triggers, loose ends, disconnected pieces, parallel connections and self-loops. A
Start leads to every node that nothing leads to (into a loop that nothing leads to: to its first node), an End follows
every node that leads nowhere, parallel edges become one with their labels joined by ``+``, and self-loops are dropped.
What was dropped and merged is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.graph_search import finish_order, reach
from fedloom.tasks.flows.rules import Dialect

END = "End"


@dataclass(frozen=True)
class Reading:
    """A flow as read from a file, its dialect, and how many self-loops were dropped and parallel edges merged."""

    flow: Flow
    dialect: Dialect
    self_loops: int = 0
    merged: int = 0


def with_start_and_ends(
    nodes: Sequence[Node],
    edges: Iterable[Edge],
    dialect: Dialect,
    *,
    is_attachment: Callable[[Edge], bool] = lambda edge: False,  # noqa: ARG005
    start_events: Collection[str] = (),
    end_events: Collection[str] = (),
    draft: bool = False,
    attributes: Mapping[str, str] | None = None,
    name: str = "",
) -> Reading:
    """A flow with one Start and with an End after every node that leads nowhere.

    Args:
        nodes: the nodes of a file.
        dialect: the dialect of the flow.
        is_attachment: whether an edge gives its target something to work with (an agent its tools) instead of leading
            on to it. A node that has no other edges is not a step, and the Start does not lead to it.
        start_events: ids of nodes that are starts by nature (BPMN's start events). The only entry of a flow becomes the
            Start if it is one of them; what it was is kept as its attribute ``type``. A loop that nothing leads to is
            entered through one of them if it has one, and through its first node otherwise.
        end_events: ids of nodes that are ends by nature. Those that lead nowhere become Ends, with ``type`` as above.
        draft: the flow is under construction and gets no Ends.
        attributes: the attributes of the flow.
    """
    joined, self_loops, merged = _merge_parallel(edges)
    after: dict[str, list[str]] = {node.id: [] for node in nodes}
    leads: dict[str, list[str]] = {node.id: [] for node in nodes}
    steps: set[str] = set()
    for (source, target), edge in joined.items():
        after[source].append(target)
        if not is_attachment(edge):
            leads[source].append(target)
            steps.update((source, target))
    order = [node.id for node in nodes if node.id in steps or not after[node.id]]
    order.sort(key=lambda node: node not in start_events)
    entries = _entries_of_all_components(_entries(order, leads), after)
    sinks = [name for name, targets in after.items() if not targets]
    kinds = {sink: END for sink in sinks if sink in end_events}
    targets = {target for _, target in joined}
    if len(entries) == 1 and entries[0] in start_events and after[entries[0]] and entries[0] not in targets:
        kinds[entries[0]] = dialect.start
    all_nodes = [_with_kind(node, kinds) for node in nodes] if kinds else list(nodes)
    all_edges = list(joined.values())
    if dialect.start not in kinds.values():
        start = _free_name(dialect.start, after)
        all_nodes.insert(0, Node(start, dialect.start))
        all_edges[:0] = [Edge(start, entry) for entry in entries]
    number = 1
    for sink in sinks:
        if sink not in kinds and not draft:
            while (end := END if number == 1 else f"{END} {number}") in after:
                number += 1
            number += 1
            all_nodes.append(Node(end, END))
            all_edges.append(Edge(sink, end, dialect.plain))  # any other label would reveal that an end follows
    return Reading(Flow(tuple(all_nodes), tuple(all_edges), attributes or {}, name), dialect, self_loops, merged)


def _free_name(name: str, taken: Collection[str]) -> str:
    """A name like this one that no node has yet: ``Start``, ``Start 2``, ..."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} {number}"
    return free


def _with_kind(node: Node, kinds: Mapping[str, str]) -> Node:
    """The node with its new kind, if it has one; its old kind is kept as ``type``."""
    if node.id not in kinds:
        return node
    return replace(node, kind=kinds[node.id], attributes={**node.attributes, "type": node.kind})


def _merge_parallel(edges: Iterable[Edge]) -> tuple[dict[tuple[str, str], Edge], int, int]:
    """Edges by their two nodes without self-loops, labels and attributes of parallel ones joined by ``+``; the number
    of self-loops and of merged edges."""
    found: dict[tuple[str, str], Edge] = {}
    parallel: dict[tuple[str, str], list[Edge]] = {}
    self_loops = merged = 0
    for edge in edges:
        pair = (edge.source, edge.target)
        if edge.source == edge.target:
            self_loops += 1
        elif pair not in found:
            found[pair] = edge
        else:
            merged += 1
            parallel.setdefault(pair, [found[pair]]).append(edge)
    for pair, several in parallel.items():
        words: dict[str, dict[str, None]] = {}  # the values of each attribute, once and in order
        for edge in several:
            for key, value in edge.attributes.items():
                words.setdefault(key, {})[value] = None
        label = "+".join(dict.fromkeys(edge.label for edge in several if edge.label))
        found[pair] = Edge(*pair, label, {key: "+".join(values) for key, values in words.items()})
    return found, self_loops, merged


def _entries(order: Sequence[str], leads: Mapping[str, Sequence[str]]) -> list[str]:
    """The fewest nodes from which all others can be reached.

    They are one node of every strongly connected component that nothing leads into. A depth-first search finishes such
    a component after everything it leads to, and the node through which it entered the component last.
    """
    entries: list[str] = []
    reached: set[str] = set()
    for name in reversed(finish_order(order, leads, set())):
        if name not in reached:
            entries.append(name)
            reached.add(name)
            reach([name], leads, reached)
    return entries


def _entries_of_all_components(entries: list[str], after: Mapping[str, Sequence[str]]) -> list[str]:
    """The entries in the order of the file, and one more for every component without one (a cycle of attachments)."""
    beside = {name: list(targets) for name, targets in after.items()}
    for name, targets in after.items():
        for target in targets:
            beside[target].append(name)
    chosen, reached = set(entries), set(entries)
    reach(entries, beside, reached)
    for name in after:
        if name not in reached:
            chosen.add(name)
            reached.add(name)
            reach([name], beside, reached)
    return [name for name in after if name in chosen]
