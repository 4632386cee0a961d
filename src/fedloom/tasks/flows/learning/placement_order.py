"""A plausible order in which a user placed the actions of a flow.

The thesis on personalised federated learning for action flows does not say how it makes data points of a flow. Here a
flow is built from its Start in a topological order, the reverse of the order in which a depth-first search finishes its
nodes: an action comes after one that leads to it, and where branches merge after all of them, unless a loop closes
there. Branches are ordered at random. What the Start does not reach (the tools of an agent) is placed right after the
action it leads into.
"""

from __future__ import annotations

import random

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import key
from fedloom.tasks.flows.flow import Flow
from fedloom.tasks.flows.graph_search import finish_order, reach
from fedloom.tasks.flows.platform_kinds import START


def placement_order(flow: Flow, seed: int, start: str = START) -> list[int]:
    """The numbers of a flow's nodes in placement order; it does not depend on their ids.

    The Start comes first, and every other node that it reaches comes after one that leads to it.

    Args:
        seed: decides the order of branches.
        start: the dialect's kind of start.
    """
    number = {node.id: i for i, node in enumerate(flow.nodes)}
    first = next((i for i, node in enumerate(flow.nodes) if node.kind == start), None)
    if first is None:
        raise FedloomError(f"flow '{flow.name}' has no node of kind {start}: its actions have no order.")
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
    for node in finish_order([first], after, reached)[::-1]:
        order.append(node)
        order += reach([node], before, reached)
    return order + finish_order(range(len(chance)), after, reached)[::-1]
