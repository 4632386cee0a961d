"""Where the nodes of a flow stand in a picture: in layers from the top, with few crossings and straight edges.

Sugiyama's four steps. Edges that close a cycle are turned round; every node goes one layer below the lowest of those
that lead to it; an edge that passes layers gets a place in each of them; layers are ordered by the mean place of their
neighbours, up and down, and the order with the fewest crossings is kept; ``alignment`` says how far across each is.

Sugiyama, Tagawa and Toda, Methods for Visual Understanding of Hierarchical System Structures, IEEE SMC 1981.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fedloom.tasks.flows.drawing.alignment import aligned
from fedloom.tasks.flows.flow import Flow

SWEEPS = 12


@dataclass(frozen=True)
class Layout:
    """Where a flow's nodes stand (across, layer), and for each edge the places it passes, source to target."""

    places: Mapping[str, tuple[float, int]]
    routes: tuple[tuple[tuple[float, int], ...], ...]
    turned: tuple[bool, ...]
    """For each edge whether it leads back up."""


def layout(flow: Flow, start: str, widths: Sequence[float], narrow: float) -> Layout:
    """Lay out a flow whose nodes need ``widths`` across and whose passing edges need ``narrow``.

    ``start`` is the kind of the node to begin at. Ids must be unique and edges must join nodes.
    """
    names = [node.id for node in flow.nodes]
    number = {name: i for i, name in enumerate(names)}
    edges = [(number[edge.source], number[edge.target]) for edge in flow.edges]
    first = next((i for i, node in enumerate(flow.nodes) if node.kind == start), 0)
    turned = _closing_edges(len(names), edges, first)
    down = [(b, a) if back else (a, b) for (a, b), back in zip(edges, turned, strict=True)]
    layer = _layers(len(names), down, first)
    chains, layer = _chains(down, layer)
    above: list[list[int]] = [[] for _ in layer]
    below: list[list[int]] = [[] for _ in layer]
    for chain in chains:
        for a, b in pairwise(chain):
            below[a].append(b)
            above[b].append(a)
    rows = _ordered(_by_layer(layer), above, below)
    room = [*widths, *([narrow] * (len(layer) - len(names)))]
    across = aligned(rows, above, below, room, len(names))
    place = [(across[i], layer[i]) for i in range(len(layer))]
    routes = tuple(
        tuple(place[i] for i in (reversed(chain) if back else chain))
        for chain, back in zip(chains, turned, strict=True)
    )
    return Layout({name: place[i] for i, name in enumerate(names)}, routes, tuple(turned))


def _closing_edges(count: int, edges: Sequence[tuple[int, int]], first: int) -> list[bool]:
    """Which edges lead back to a node on the way to them, in a depth-first search from the first node."""
    after: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for place, (a, b) in enumerate(edges):
        after[a].append((b, place))
    closing = [a == b for a, b in edges]
    state = [0] * count  # 0 new, 1 on the way, 2 done
    for root in (first, *range(count)):
        if state[root]:
            continue
        state[root] = 1
        way = [(root, iter(after[root]))]
        while way:
            for node, place in way[-1][1]:
                if state[node] == 1:
                    closing[place] = True
                elif state[node] == 0:
                    state[node] = 1
                    way.append((node, iter(after[node])))
                    break
            else:
                state[way.pop()[0]] = 2
    return closing


def _layers(count: int, down: Sequence[tuple[int, int]], first: int) -> list[int]:
    """The layer of every node: below all that lead to it; what hangs on a node without being led to, just above it."""
    after: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for a, b in down:
        after[a].append(b)
        waiting[b] += 1
    order = [node for node in range(count) if not waiting[node]]
    layer = [0] * count
    led = [node == first for node in range(count)]
    for node in order:
        for other in after[node]:
            layer[other] = max(layer[other], layer[node] + 1)
            led[other] |= led[node]
            waiting[other] -= 1
            if not waiting[other]:
                order.append(other)
    for node in reversed(order):
        if not led[node] and after[node]:
            layer[node] = min(layer[other] for other in after[node]) - 1
    top = min(layer, default=0)
    return [place - top for place in layer]


def _chains(down: Sequence[tuple[int, int]], layer: list[int]) -> tuple[list[list[int]], list[int]]:
    """Every edge as a chain with a place in each layer it passes, and the layers with those places added."""
    layer = list(layer)
    chains = []
    for a, b in down:
        chain = [a]
        for between in range(layer[a] + 1, layer[b]):
            chain.append(len(layer))
            layer.append(between)
        chains.append([*chain, b])
    return chains, layer


def _by_layer(layer: Sequence[int]) -> list[list[int]]:
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for place, row in enumerate(layer):
        rows[row].append(place)
    return rows


def _ordered(rows: list[list[int]], above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]) -> list[list[int]]:
    """The rows in an order with few crossings."""
    best, fewest = rows, _crossings(rows, below)
    for sweep in range(SWEEPS):
        beside = above if sweep % 2 == 0 else below
        rows = [list(row) for row in rows]
        for i in range(1, len(rows)) if sweep % 2 == 0 else range(len(rows) - 2, -1, -1):
            near = {node: place for place, node in enumerate(rows[i - 1 if sweep % 2 == 0 else i + 1])}
            here = {node: place for place, node in enumerate(rows[i])}
            mean = {n: sum(near[o] for o in beside[n]) / len(beside[n]) if beside[n] else here[n] for n in rows[i]}
            ties = -1 if sweep % 4 > 1 else 1  # every other time the other way: equal means hide better orders
            rows[i].sort(key=lambda node: (mean[node], ties * here[node]))
        _exchange(rows, above, below)
        crossings = _crossings(rows, below)
        if crossings < fewest:
            best, fewest = rows, crossings
    return best


def _exchange(rows: list[list[int]], above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]) -> None:
    """Exchange neighbours wherever that takes away a crossing, until it does no more (or long enough)."""
    for _ in range(SWEEPS):
        better = False
        for i, row in enumerate(rows):
            sides = [
                (beside, {node: place for place, node in enumerate(rows[near])})
                for beside, near in ((above, i - 1), (below, i + 1))
                if 0 <= near < len(rows)
            ]
            for j in range(len(row) - 1):
                gain = 0
                for beside, place in sides:
                    left, right = ([place[other] for other in beside[node]] for node in row[j : j + 2])
                    gain += sum((a > b) - (a < b) for a in left for b in right)
                if gain > 0:
                    row[j], row[j + 1] = row[j + 1], row[j]
                    better = True
        if not better:
            break


def _crossings(rows: Sequence[Sequence[int]], below: Sequence[Sequence[int]]) -> int:
    """How often edges cross: pairs that are in one order above and in the other below."""
    crossings = 0
    for upper, lower in pairwise(rows):
        place = {node: i for i, node in enumerate(lower)}
        seen: list[int] = []
        for node in upper:
            for target in sorted(place[other] for other in below[node]):
                crossings += len(seen) - bisect_left(seen, target + 1)
            for other in below[node]:
                insort(seen, place[other])
    return crossings
