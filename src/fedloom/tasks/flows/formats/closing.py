"""From the graph in a file to a flow that keeps the rules: one Start before it, an End after whatever ends.

Exports of real platforms have many triggers, loose ends, pieces that nothing joins, double connections and the odd
self-loop. A Start leads to every node that nothing leads to (of a loop that nothing leads into: to its first node), an
End follows every node that leads nowhere, parallel edges become one with their labels joined by ``+``, and self-loops
are dropped. What was dropped and merged is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.rules import Dialect

END = "End"


@dataclass(frozen=True)
class Reading:
    """A flow as read from a file, its dialect, and what reading it dropped (self-loops) and merged (edges)."""

    flow: Flow
    dialect: Dialect
    self_loops: int = 0
    merged: int = 0


def closed(
    nodes: Sequence[Node],
    edges: Iterable[Edge],
    dialect: Dialect,
    *,
    attaches: Callable[[Edge], bool] = lambda edge: False,  # noqa: ARG005
    opens: Collection[str] = (),
    closes: Collection[str] = (),
    draft: bool = False,
    attributes: Mapping[str, str] | None = None,
    name: str = "",
) -> Reading:
    """A flow with one Start and with an End after every sink, from the nodes and edges of a file.

    An edge that ``attaches`` gives a node something to work with (an agent its tools) and leads nowhere: a node that
    has no other edges is no step, and no Start leads to it. ``opens`` and ``closes`` are nodes that are starts and ends
    by their nature (BPMN's events). The only way into a flow becomes the Start if it is one of ``opens``, a sink of
    ``closes`` becomes an End, and what they were stays with them as the attribute ``type``. A loop that nothing leads
    into is entered through one of ``opens`` if it has one, and through its first node otherwise. A ``draft`` gets no
    Ends: where it stops, somebody is still building.
    """
    joined, self_loops, merged = _joined(edges)
    after: dict[str, list[str]] = {node.id: [] for node in nodes}
    leads: dict[str, list[str]] = {node.id: [] for node in nodes}
    steps: set[str] = set()
    for (source, target), edge in joined.items():
        after[source].append(target)
        if not attaches(edge):
            leads[source].append(target)
            steps.update((source, target))
    order = [node.id for node in nodes if node.id in steps or not after[node.id]]
    entries = _entries([*(n for n in order if n in opens), *(n for n in order if n not in opens)], leads)
    entries = _in_one_piece(entries, after)
    sinks = [name for name, targets in after.items() if not targets]
    kinds = {sink: END for sink in sinks if sink in closes}
    reached = {target for _, target in joined}
    if len(entries) == 1 and entries[0] in opens and after[entries[0]] and entries[0] not in reached:
        kinds[entries[0]] = dialect.start
    whole = [_renamed(node, kinds) for node in nodes] if kinds else list(nodes)
    links = list(joined.values())
    if dialect.start not in kinds.values():
        start = _free(dialect.start, after)
        whole.insert(0, Node(start, dialect.start))
        links[:0] = [Edge(start, entry) for entry in entries]
    number = 1
    for sink in sinks:
        if sink not in kinds and not draft:
            while (end := END if number == 1 else f"{END} {number}") in after:
                number += 1
            number += 1
            whole.append(Node(end, END))
            links.append(Edge(sink, end, dialect.plain))  # any other label would tell that an end comes
    return Reading(Flow(tuple(whole), tuple(links), attributes or {}, name), dialect, self_loops, merged)


def _free(name: str, taken: Collection[str]) -> str:
    """A name like this one that nothing has yet: ``Start``, ``Start 2``, ..."""
    number, tried = 1, name
    while tried in taken:
        number += 1
        tried = f"{name} {number}"
    return tried


def _renamed(node: Node, kinds: Mapping[str, str]) -> Node:
    if node.id not in kinds:
        return node
    return replace(node, kind=kinds[node.id], attributes={**node.attributes, "type": node.kind})


def _joined(edges: Iterable[Edge]) -> tuple[dict[tuple[str, str], Edge], int, int]:
    """Edges by their two nodes, without self-loops; labels and attributes of parallel ones joined by ``+``."""
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
        words: dict[str, dict[str, None]] = {}  # what each attribute says, once and in order
        for edge in several:
            for key, value in edge.attributes.items():
                words.setdefault(key, {})[value] = None
        label = "+".join(dict.fromkeys(edge.label for edge in several if edge.label))
        found[pair] = Edge(*pair, label, {key: "+".join(values) for key, values in words.items()})
    return found, self_loops, merged


def _entries(order: Sequence[str], leads: Mapping[str, Sequence[str]]) -> list[str]:
    """The fewest nodes from which all can be reached.

    One for every strongly connected piece that nothing leads into: a depth-first search is done with such a piece
    after all that it leads to, and with the node it entered the piece through last.
    """
    entries: list[str] = []
    reached: set[str] = set()
    for name in reversed(_finished(order, leads)):
        if name not in reached:
            entries.append(name)
            _reach(name, leads, reached)
    return entries


def _in_one_piece(entries: list[str], after: Mapping[str, Sequence[str]]) -> list[str]:
    """Entries in the order of the file, and one more for every piece that has none (nodes attached in a circle)."""
    beside = {name: list(targets) for name, targets in after.items()}
    for name, targets in after.items():
        for target in targets:
            beside[target].append(name)
    chosen, together = set(entries), set[str]()
    for name in entries:
        if name not in together:
            _reach(name, beside, together)
    for name in after:
        if name not in together:
            chosen.add(name)
            _reach(name, beside, together)
    return [name for name in after if name in chosen]


def _reach(name: str, after: Mapping[str, Sequence[str]], reached: set[str]) -> None:
    todo = [name]
    reached.add(name)
    while todo:
        for other in after[todo.pop()]:
            if other not in reached:
                reached.add(other)
                todo.append(other)


def _finished(order: Sequence[str], after: Mapping[str, Sequence[str]]) -> list[str]:
    """Nodes in the order in which a depth-first search is done with them."""
    seen: set[str] = set()
    done: list[str] = []
    for name in order:
        if name in seen:
            continue
        seen.add(name)
        path = [(name, iter(after[name]))]
        while path:
            for other in path[-1][1]:
                if other not in seen:
                    seen.add(other)
                    path.append((other, iter(after[other])))
                    break
            else:
                done.append(path.pop()[0])
    return done
