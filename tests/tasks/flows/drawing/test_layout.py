"""In a picture everything has a place of its own, edges run downwards, and what can be straight is straight."""

from __future__ import annotations

from itertools import combinations, pairwise

import hypothesis.strategies as st
from hypothesis import given, settings

from fedloom.tasks.flows.drawing.layout import Layout, layout
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.formats.closing import closed
from fedloom.tasks.flows.formats.n8n import is_attachment
from fedloom.tasks.flows.rules import N8N

WIDE, NARROW = 2.0, 0.3
GRAPHS = st.integers(1, 9).flatmap(
    lambda n: st.lists(
        st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.sampled_from(["main", "ai_tool"])), max_size=16
    ).map(
        lambda edges: (
            closed(
                [Node(str(i), "kind") for i in range(n)],
                [Edge(str(a), str(b), label) for a, b, label in edges],
                N8N,
                attaches=is_attachment,
            ).flow
        )
    )
)


def laid(flow: Flow) -> Layout:
    return layout(flow, "Start", [WIDE] * len(flow.nodes), NARROW)


def drawn(names: str, arrows: str) -> tuple[Flow, Layout]:
    nodes = tuple(Node(name, "Start" if name == "s" else "kind") for name in names.split())
    flow = Flow(nodes, tuple(Edge(*arrow.split(">")) for arrow in arrows.split()))
    return flow, laid(flow)


@given(GRAPHS)
@settings(max_examples=100, deadline=None)
def test_nothing_overlaps_and_edges_join_their_nodes_layer_by_layer(flow: Flow) -> None:
    placed = laid(flow)
    assert placed.places.keys() == {node.id for node in flow.nodes}
    for (x, layer), (other, same) in combinations(placed.places.values(), 2):
        assert layer != same or abs(x - other) > WIDE - 1e-6
    for edge, route, turned in zip(flow.edges, placed.routes, placed.turned, strict=True):
        assert route[0] == placed.places[edge.source]
        assert route[-1] == placed.places[edge.target]
        layers = [layer for _, layer in route]
        step = -1 if turned else 1
        assert layers == list(range(layers[0], layers[-1] + step, step))
        for x, layer in route[1:-1]:
            for y, row in placed.places.values():
                assert layer != row or abs(x - y) > (WIDE + NARROW) / 2 - 1e-6
    assert min(x for x, _ in placed.places.values()) > WIDE / 2 - 1e-6


def test_a_chain_is_a_straight_line() -> None:
    _, placed = drawn("s a b c", "s>a a>b b>c")
    assert list(placed.places.values()) == [(WIDE / 2, i) for i in range(4)]


def test_a_fork_stands_above_the_middle_of_its_branches() -> None:
    _, placed = drawn("s a b", "s>a s>b")
    assert placed.places["s"][0] == (placed.places["a"][0] + placed.places["b"][0]) / 2


def test_a_long_edge_is_straight_beside_what_it_passes() -> None:
    _, placed = drawn("s a b c d", "s>a a>b b>c c>d s>d")
    passing = {x for x, _ in placed.routes[-1][1:-1]}
    assert len(passing) == 1


def test_crossings_that_need_not_be_are_not() -> None:
    flow, placed = drawn("s a b c d", "s>a s>b a>d b>c")
    x = {name: place[0] for name, place in placed.places.items()}
    assert (x["a"] - x["b"]) * (x["d"] - x["c"]) > 0
    assert not any(placed.turned)
    assert len(flow.edges) == len(placed.routes)


def test_an_edge_back_is_turned_and_what_hangs_on_a_node_stands_just_above_it() -> None:
    _, placed = drawn("s a b tool", "s>a a>b b>a tool>b")
    assert placed.turned == (False, False, True, False)
    layers = {name: layer for name, (_, layer) in placed.places.items()}
    assert layers == {"s": 0, "a": 1, "b": 2, "tool": 1}


def test_a_deep_flow_is_laid_out_without_recursion() -> None:
    names = ["s", *map(str, range(3000))]
    flow = Flow(
        tuple(Node(name, "Start" if name == "s" else "kind") for name in names),
        tuple(Edge(a, b) for a, b in pairwise(names)),
    )
    assert max(layer for _, layer in laid(flow).places.values()) == 3000
