"""The order in which the actions of a flow are placed, as somebody might have drawn it.

How a thesis on personalised federated learning for action flows makes data points of a flow is not stated. Here a
flow is built from its Start in a topological order, the reverse of the order in which a depth-first search is done
with its nodes: an action comes after one that leads to it, and where branches merge after all of them, unless a loop
closes there. Of several ways on, chance decides. What the Start does not reach (tools that hang on an agent) is placed
right after the action it leads into.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import key
from fedloom.tasks.flows.flow import Flow
from fedloom.tasks.flows.platform_kinds import START

Lists = Sequence[Sequence[int]]


def placed(flow: Flow, seed: int, start: str = START) -> list[int]:
    """The numbers of a flow's nodes in placement order: the Start first, and before every other node that the Start
    reaches one that leads to it. ``start`` is the dialect's kind of start; ids do not matter."""
    number = {node.id: i for i, node in enumerate(flow.nodes)}
    first = next((i for i, node in enumerate(flow.nodes) if node.kind == start), None)
    if first is None:
        raise FedloomError(f"flow '{flow.name}' has no node of the kind {start}: nothing can be placed.")
    draw = random.Random(key(seed, "placement"))
    chance = [draw.random() for _ in flow.nodes]
    after: list[list[int]] = [[] for _ in flow.nodes]
    before: list[list[int]] = [[] for _ in flow.nodes]
    for edge in flow.edges:
        after[number[edge.source]].append(number[edge.target])
        before[number[edge.target]].append(number[edge.source])
    for several in (*after, *before):
        several.sort(key=chance.__getitem__)
    reached: set[int] = set()
    order: list[int] = []
    for node in _finished([first], after, reached)[::-1]:
        order.append(node)
        order += _met([node], before, reached)
    return order + _finished(range(len(chance)), after, reached)[::-1]


def _finished(roots: Iterable[int], after: Lists, reached: set[int]) -> list[int]:
    """The nodes that roots newly reach, in the order in which a depth-first search is done with them."""
    done: list[int] = []
    for root in roots:
        if root in reached:
            continue
        reached.add(root)
        path = [(root, iter(after[root]))]
        while path:
            for node in path[-1][1]:
                if node not in reached:
                    reached.add(node)
                    path.append((node, iter(after[node])))
                    break
            else:
                done.append(path.pop()[0])
    return done


def _met(todo: list[int], before: Lists, reached: set[int]) -> list[int]:
    """The nodes that lead to some node and were not reached yet, nearest first."""
    met: list[int] = []
    while todo:
        for node in before[todo.pop()]:
            if node not in reached:
                reached.add(node)
                met.append(node)
                todo.append(node)
    return met
