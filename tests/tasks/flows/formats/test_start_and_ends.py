"""Whatever graph a file holds, closing it gives a flow that keeps the rules and still has all of the graph."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import hypothesis.strategies as st
from hypothesis import given, settings

from fedloom.tasks.flows.flow import Edge, Node
from fedloom.tasks.flows.formats.n8n import is_attachment
from fedloom.tasks.flows.formats.start_and_ends import with_start_and_ends
from fedloom.tasks.flows.rules import BPMN, N8N, validate

NAMES = st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "Start", "End", "End 2"])
GRAPHS = st.lists(NAMES, min_size=1, unique=True).flatmap(
    lambda names: st.tuples(
        st.just([Node(name, "kind") for name in names]),
        st.lists(
            st.builds(
                Edge, st.sampled_from(names), st.sampled_from(names), st.sampled_from(["main", "main 1", "ai_tool"])
            ),
            max_size=14,
        ),
    )
)


def nodes(names: str) -> list[Node]:
    return [Node(name, "kind") for name in names.split()]


def arrows(text: str, label: str = "main") -> list[Edge]:
    return [Edge(*pair.split(">"), label) for pair in text.split()]


def first_nodes(names: str, *edges: Edge, **more: object) -> list[str]:
    """The nodes that the Start of a with_start_and_ends graph leads to."""
    flow = with_start_and_ends(nodes(names), edges, N8N, **more).flow
    (start,) = (node.id for node in flow.nodes if node.kind == "Start")
    return [edge.target for edge in flow.edges if edge.source == start]


@given(GRAPHS)
@settings(max_examples=80, deadline=None)
def test_any_graph_becomes_a_flow(graph: tuple[list[Node], list[Edge]]) -> None:
    given_nodes, edges = graph
    reading = with_start_and_ends(given_nodes, edges, N8N, is_attachment=is_attachment)
    flow = reading.flow
    validate(flow, N8N)
    assert [node for node in flow.nodes if node.kind == "kind"] == given_nodes
    made = {node.id for node in flow.nodes if node.kind != "kind"}
    kept = [edge for edge in flow.edges if edge.source not in made and edge.target not in made]
    assert {(e.source, e.target) for e in kept} == {(e.source, e.target) for e in edges if e.source != e.target}
    assert len(kept) + reading.self_loops + reading.merged == len(edges)
    assert reading.self_loops == sum(e.source == e.target for e in edges)
    for edge in kept:
        said = {e.label for e in edges if (e.source, e.target) == (edge.source, edge.target)}
        assert Counter(edge.label.split("+")) == Counter(said)


@given(GRAPHS, st.sets(NAMES), st.sets(NAMES))
@settings(max_examples=80, deadline=None)
def test_any_model_with_events_becomes_a_flow(
    graph: tuple[list[Node], list[Edge]], opens: set[str], closes: set[str]
) -> None:
    given_nodes, edges = graph
    flow = with_start_and_ends(given_nodes, edges, BPMN, start_events=opens, end_events=closes).flow
    validate(flow, BPMN)
    was = [node for node in flow.nodes if node.kind == "kind" or node.attributes.get("type") == "kind"]
    assert [node.id for node in was] == [node.id for node in given_nodes]


@given(GRAPHS)
@settings(max_examples=80, deadline=None)
def test_all_steps_are_reached_from_the_start_and_no_entry_from_another(graph: tuple[list[Node], list[Edge]]) -> None:
    given_nodes, edges = graph
    flow = with_start_and_ends(given_nodes, edges, N8N).flow
    after: dict[str, list[str]] = {node.id: [] for node in flow.nodes}
    for edge in flow.edges:
        after[edge.source].append(edge.target)

    def reachable_from(name: str) -> set[str]:
        seen, todo = {name}, [name]
        while todo:
            new = set(after[todo.pop()]) - seen
            seen |= new
            todo += new
        return seen

    start = flow.nodes[0]
    assert start.kind == "Start"
    assert reachable_from(start.id) == set(after)
    for entry in after[start.id]:
        assert not any(entry in reachable_from(other) for other in after[start.id] if other != entry)


def test_a_start_leads_to_every_trigger_and_an_end_follows_every_sink() -> None:
    flow = with_start_and_ends(nodes("t u a b"), arrows("t>a u>a a>b"), N8N).flow
    assert [(e.source, e.target) for e in flow.edges] == [
        ("Start", "t"), ("Start", "u"), ("t", "a"), ("u", "a"), ("a", "b"), ("b", "End"),
    ]  # fmt: skip


def test_a_loop_is_entered_through_its_first_node_or_its_start_event() -> None:
    assert first_nodes("x a b c", *arrows("a>b b>c c>a c>x")) == ["a"]
    assert first_nodes("x a b c", *arrows("a>b b>c c>a c>x"), start_events={"b"}) == ["b"]


def test_what_is_attached_is_no_step() -> None:
    attached = arrows("model>agent memory>agent", "ai_languageModel")
    assert first_nodes("model memory t agent", *arrows("t>agent"), *attached, is_attachment=is_attachment) == ["t"]
    assert first_nodes("model agent", *arrows("model>agent", "ai_tool"), is_attachment=is_attachment) == ["agent"]


def test_names_that_are_taken_are_not_given_again() -> None:
    flow = with_start_and_ends(nodes("Start End"), [], N8N).flow
    assert [node.id for node in flow.nodes] == ["Start 2", "Start", "End", "End 2", "End 3"]


def test_the_only_start_event_is_the_start_and_a_last_event_an_end() -> None:
    flow = with_start_and_ends(nodes("s a e"), arrows("s>a a>e"), BPMN, start_events={"s"}, end_events={"e"}).flow
    assert [(node.id, node.kind, node.attributes.get("type")) for node in flow.nodes] == [
        ("s", "Start", "kind"), ("a", "kind", None), ("e", "End", "kind"),
    ]  # fmt: skip


def test_thousands_of_parallel_edges_and_a_deep_chain_take_no_time() -> None:
    many = [Edge("a", "b", f"main {i}") for i in range(50_000)]
    reading = with_start_and_ends(nodes("a b"), many, N8N)
    assert reading.merged == 49_999
    names = [str(i) for i in range(5_000)]
    chain = [Edge(a, b) for a, b in pairwise(names)]
    validate(with_start_and_ends([Node(name, "kind") for name in names], chain, N8N).flow, N8N)
