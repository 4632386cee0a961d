"""Nodes do not overlap, edges run downwards, and what can be straight is straight."""

from __future__ import annotations

from itertools import combinations, pairwise

import hypothesis.strategies as st
from hypothesis import given, settings

from fedloom.tasks.flows.drawing.layered_layout import FlowLayout, layered_layout
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.formats.n8n import is_attachment
from fedloom.tasks.flows.formats.start_and_ends import with_start_and_ends
from fedloom.tasks.flows.rules import N8N

WIDE, NARROW = 2.0, 0.3
GRAPHS = st.integers(1, 9).flatmap(
    lambda n: st.lists(
        st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.sampled_from(["main", "ai_tool"])), max_size=16
    ).map(
        lambda edges: (
            with_start_and_ends(
                [Node(str(i), "kind") for i in range(n)],
                [Edge(str(a), str(b), label) for a, b, label in edges],
                N8N,
                is_attachment=is_attachment,
            ).flow
        )
    )
)


def layout_of(flow: Flow) -> FlowLayout:
    return layered_layout(flow, "Start", [WIDE] * len(flow.nodes), NARROW)


def flow_and_layout(names: str, arrows: str) -> tuple[Flow, FlowLayout]:
    nodes = tuple(Node(name, "Start" if name == "s" else "kind") for name in names.split())
    flow = Flow(nodes, tuple(Edge(*arrow.split(">")) for arrow in arrows.split()))
    return flow, layout_of(flow)


@given(GRAPHS)
@settings(max_examples=100, deadline=None)
def test_nothing_overlaps_and_edges_join_their_nodes_layer_by_layer(flow: Flow) -> None:
    layout = layout_of(flow)
    assert layout.positions.keys() == {node.id for node in flow.nodes}
    for (x, layer), (other, same) in combinations(layout.positions.values(), 2):
        assert layer != same or abs(x - other) > WIDE - 1e-6
    for edge, route, back in zip(flow.edges, layout.routes, layout.leads_back, strict=True):
        assert route[0] == layout.positions[edge.source]
        assert route[-1] == layout.positions[edge.target]
        layers = [layer for _, layer in route]
        step = -1 if back else 1
        assert layers == list(range(layers[0], layers[-1] + step, step))
        for x, layer in route[1:-1]:
            for y, row in layout.positions.values():
                assert layer != row or abs(x - y) > (WIDE + NARROW) / 2 - 1e-6
    assert min(x for x, _ in layout.positions.values()) > WIDE / 2 - 1e-6


def test_a_chain_is_a_straight_line() -> None:
    _, layout = flow_and_layout("s a b c", "s>a a>b b>c")
    assert list(layout.positions.values()) == [(WIDE / 2, i) for i in range(4)]


def test_a_fork_stands_above_the_middle_of_its_branches() -> None:
    _, layout = flow_and_layout("s a b", "s>a s>b")
    assert layout.positions["s"][0] == (layout.positions["a"][0] + layout.positions["b"][0]) / 2


def test_a_long_edge_is_straight_beside_what_it_passes() -> None:
    _, layout = flow_and_layout("s a b c d", "s>a a>b b>c c>d s>d")
    passing = {x for x, _ in layout.routes[-1][1:-1]}
    assert len(passing) == 1


def test_crossings_that_need_not_be_are_not() -> None:
    flow, layout = flow_and_layout("s a b c d", "s>a s>b a>d b>c")
    x = {name: place[0] for name, place in layout.positions.items()}
    assert (x["a"] - x["b"]) * (x["d"] - x["c"]) > 0
    assert not any(layout.leads_back)
    assert len(flow.edges) == len(layout.routes)


def test_an_edge_back_is_reversed_and_an_attachment_is_just_above_its_node() -> None:
    _, layout = flow_and_layout("s a b tool", "s>a a>b b>a tool>b")
    assert layout.leads_back == (False, False, True, False)
    layers = {name: layer for name, (_, layer) in layout.positions.items()}
    assert layers == {"s": 0, "a": 1, "b": 2, "tool": 1}


def test_a_deep_flow_is_laid_out_without_recursion() -> None:
    names = ["s", *map(str, range(3000))]
    flow = Flow(
        tuple(Node(name, "Start" if name == "s" else "kind") for name in names),
        tuple(Edge(a, b) for a, b in pairwise(names)),
    )
    assert max(layer for _, layer in layout_of(flow).positions.values()) == 3000
