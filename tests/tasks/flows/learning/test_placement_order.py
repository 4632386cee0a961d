"""Placement: every action comes after one that leads to it, by chance where there is a choice."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.learning.placement_order import placement_order
from support import small_flows


def flow(*edges: str, kinds: str = "") -> Flow:
    """A flow from edges such as ``"s>a"``; the node ``s`` is the Start."""
    pairs = [edge.split(">") for edge in edges]
    names = dict.fromkeys(kinds or [name for pair in pairs for name in pair])
    nodes = tuple(Node(name, "Start" if name == "s" else "Assign") for name in names)
    return Flow(nodes, tuple(Edge(a, b) for a, b in pairs))


def names(of: Flow, seed: int = 0) -> str:
    return "".join(of.nodes[i].id for i in placement_order(of, seed))


def test_a_chain_is_placed_from_its_start_whatever_the_order_in_the_file() -> None:
    assert names(flow("b>c", "s>a", "a>b")) == "sabc"


def test_where_branches_merge_all_of_them_come_first() -> None:
    diamond = flow("s>i", "i>a", "i>b", "a>m", "b>m", "m>e")
    found = {names(diamond, seed) for seed in range(20)}
    assert found == {"siabme", "sibame"}


def test_a_branch_is_finished_before_the_next_one_begins() -> None:
    assert {names(flow("s>i", "i>a", "a>b", "i>c", "c>d"), seed) for seed in range(20)} == {"siabcd", "sicdab"}


def test_a_loop_is_entered_where_it_is_led_into() -> None:
    assert {names(flow("s>f", "f>a", "a>b", "b>f", "f>x"), seed) for seed in range(20)} == {"sfabx", "sfxab"}


def test_what_hangs_on_an_action_is_placed_right_after_it() -> None:
    """A model (m) and a tool (t) of an agent (a) lead into it; the tool's own model (n) into the tool."""
    agent = flow("s>b", "b>a", "a>e", "m>a", "t>a", "n>t")
    assert {names(agent, seed) for seed in range(20)} <= {"sbamtne", "sbatmne", "sbatnme"}
    assert len({names(agent, seed) for seed in range(20)}) > 1


def test_what_follows_only_from_there_comes_last() -> None:
    assert names(flow("s>a", "t>a", "t>x", "x>y")) == "satxy"


def test_the_same_seed_places_the_same_and_ids_do_not_matter() -> None:
    wide = flow("s>a", "s>b", "s>c", "s>d", "s>e")
    assert placement_order(wide, 3) == placement_order(wide, 3)
    assert len({tuple(placement_order(wide, seed)) for seed in range(10)}) > 5
    renamed = Flow(
        tuple(Node(f"x{n.id}", n.kind) for n in wide.nodes),
        tuple(Edge(f"x{e.source}", f"x{e.target}") for e in wide.edges),
    )
    assert placement_order(renamed, 3) == placement_order(wide, 3)


def test_a_flow_without_a_start_is_refused() -> None:
    with pytest.raises(FedloomError, match="no node of kind Start"):
        placement_order(flow("a>b"), 0)
    assert placement_order(flow("a>b"), 0, start="Assign") == [0, 1]


@st.composite
def graphs(draw: st.DrawFn) -> Flow:
    """Any graph whose Start only has edges out of it: also loops and pieces that nothing leads to."""
    size = draw(st.integers(1, 7))
    pairs = [(a, b) for a in range(size) for b in range(1, size) if a != b]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    nodes = tuple(Node(str(i), "If" if i else "Start") for i in range(size))
    return Flow(nodes, tuple(Edge(str(a), str(b)) for a, b in edges))


def reachable_nodes(some: Flow) -> set[int]:
    """The nodes that the Start reaches."""
    found, grows = {0}, True
    while grows:
        more = {int(e.target) for e in some.edges if int(e.source) in found} - found
        found, grows = found | more, bool(more)
    return found


@given(graphs(), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_any_graph_is_placed_whole_and_what_the_start_reaches_follows_something(some: Flow, seed: int) -> None:
    order, ends = placement_order(some, seed), [(int(e.source), int(e.target)) for e in some.edges]
    assert sorted(order) == list(range(len(some.nodes)))
    assert order[0] == 0
    for i, node in enumerate(order[1:], start=1):
        assert node not in reachable_nodes(some) or any((before, node) in ends for before in order[:i])


@given(graphs(), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_without_loops_an_action_follows_everything_that_leads_to_it(some: Flow, seed: int) -> None:
    some = Flow(some.nodes, tuple(e for e in some.edges if int(e.source) < int(e.target)))
    place = {node: i for i, node in enumerate(placement_order(some, seed))}
    ends = [(int(e.source), int(e.target)) for e in some.edges]
    assert all(place[a] < place[b] for a, b in ends if a in reachable_nodes(some))


def test_small_flows_keep_a_chain_together() -> None:
    some = small_flows.flow(1)
    order = [some.nodes[i].id for i in placement_order(some, 0)]
    followed = {(e.source, e.target) for e in some.edges}
    assert sum(pair in followed for pair in pairwise(order)) >= len(order) - 2  # but for the second branch
