"""Schemas: words to tokens and back to a file, and how embeddings share their width."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.learning.flow_schema import (
    EDGE,
    GRAPH,
    MASK,
    NODE,
    UNKNOWN,
    FlowSchema,
    Vocabulary,
    embedding_tables,
    embedding_widths,
)
from support import small_flows

FLOW = Flow(
    (Node("1", "Start"), Node("2", "If", {"name": "x"}), Node("3", "If", {"name": "y", "id": "0815"})),
    (Edge("1", "2"), Edge("2", "3", "True", {"input": "1"})),
)
words = st.lists(st.text(max_size=4), unique=True, max_size=12)


def test_token_0_masks_token_1_is_unknown_and_words_follow() -> None:
    vocabulary = Vocabulary(("a", "b"))
    assert (MASK, UNKNOWN) == (0, 1)
    assert vocabulary.numbers(["a", "b", "c", ""]) == [2, 3, 1, 1]
    assert vocabulary.number("b") == 3
    assert len(vocabulary) == 4


def test_a_schema_has_all_attributes_and_a_missing_one_is_a_word() -> None:
    schema = FlowSchema.of([FLOW])
    assert list(schema.node) == ["kind", "id", "name"]
    assert schema.node["kind"].tokens == ("If", "Start")
    assert schema.node["name"].tokens == ("", "x", "y")
    assert {name: v.tokens for name, v in schema.edge.items()} == {"label": ("", "True"), "input": ("", "1")}


def test_flows_without_attributes_have_one_that_is_always_the_same() -> None:
    assert {name: v.tokens for name, v in FlowSchema.of([FLOW]).graph.items()} == {"flow": ("",)}
    named = Flow(FLOW.nodes, FLOW.edges, {"type": "screen", "owner": "me"})
    assert {name: v.tokens for name, v in FlowSchema.of([named], ["owner"]).graph.items()} == {"type": ("screen",)}


def test_attributes_are_left_out_and_rare_words_unknown() -> None:
    schema = FlowSchema.of([FLOW], leave_out=["id"], least=2)
    assert list(schema.node) == ["kind", "name"]
    assert schema.node["kind"].tokens == ("If",)
    assert schema.node["kind"].number("Start") == UNKNOWN


def test_the_order_of_flows_does_not_matter() -> None:
    flows = [small_flows.flow(i) for i in range(8)]
    assert FlowSchema.of(flows) == FlowSchema.of(flows[::-1])


@given(words, words, words)
@settings(max_examples=30, deadline=None)
def test_a_schema_comes_back_from_json(first: list[str], second: list[str], third: list[str]) -> None:
    made = FlowSchema(
        {"kind": Vocabulary(tuple(first)), "näme": Vocabulary(tuple(second))},
        {"label": Vocabulary(tuple(third))},
        {"flow": Vocabulary(())},
    )
    back = FlowSchema.from_json(made.to_json())
    assert back == made
    assert list(back.node) == list(made.node)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a schema of flows"),
        ("[]", "not a schema of flows"),
        ('{"node": {"kind": ["a"]}, "edge": {"label": []}}', "not a schema of flows"),
        ('{"node": {"kind": "a"}, "edge": {"label": []}, "graph": {"f": []}}', "not a schema of flows"),
        ('{"node": {"kind": [1]}, "edge": {"label": []}, "graph": {"f": []}}', "not a schema of flows"),
        ('{"node": {}, "edge": {"label": []}, "graph": {"f": []}}', "'kind' of nodes"),
        ('{"node": {"kind": []}, "edge": {"label": []}, "graph": {}}', "an attribute of graphs"),
        ('{"node": {"kind": ["a", "a"]}, "edge": {"label": []}, "graph": {"f": []}}', "the word 'a' twice"),
    ],
)
def test_what_is_no_schema_is_refused(text: str, said: str) -> None:
    with pytest.raises(FedloomError, match=said):
        FlowSchema.from_json(text)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=8), st.integers(0, 200))
@settings(max_examples=60, deadline=None)
def test_widths_add_up_and_grow_with_the_logarithm_of_the_vocabulary(sizes: list[int], more: int) -> None:
    vocabularies = {str(i): Vocabulary(tuple(map(str, range(size)))) for i, size in enumerate(sizes)}
    total = len(sizes) + more
    shares = embedding_widths(vocabularies, total)
    assert sum(shares) == total
    whole = sum(math.log2(2 + size) for size in sizes)
    for size, share in zip(sizes, shares, strict=True):
        assert abs(share - 1 - more * math.log2(2 + size) / whole) < 1


def test_the_documents_widths_are_shared_by_any_attributes() -> None:
    schema = FlowSchema.of([small_flows.flow(i) for i in range(8)])
    for part, total in ((schema.node, NODE), (schema.edge, EDGE), (schema.graph, GRAPH)):
        shapes = embedding_tables(part, total)
        assert sum(width for _, width in shapes) == total
        assert [size for size, _ in shapes] == [len(vocabulary) for vocabulary in part.values()]
    assert (NODE, EDGE, GRAPH) == (117, 18, 163)


def test_more_attributes_than_numbers_are_refused() -> None:
    with pytest.raises(FedloomError, match="3 attributes do not fit into an embedding of width 2"):
        embedding_widths(dict.fromkeys("abc", Vocabulary(())), 2)
