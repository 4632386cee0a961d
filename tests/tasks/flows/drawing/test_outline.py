"""The outline of a flow says every node once, in words that are safe to print."""

from __future__ import annotations

import re

import hypothesis.strategies as st
from hypothesis import given, settings

from fedloom.tasks.flows.drawing.outline import outline
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.formats.n8n import is_attachment
from fedloom.tasks.flows.formats.start_and_ends import with_start_and_ends
from fedloom.tasks.flows.rules import N8N, PLATFORM


def test_branches_joins_loops_and_what_hangs_are_written_as_documented() -> None:
    kinds = {"s": "Start", "each": "ForEach", "ok?": "If", "a": "Assign", "stop": "RaiseError", "e": "End"}
    edges = [
        ("s", "each", ""),
        ("each", "ok?", "Cycle"),
        ("ok?", "a", "True"),
        ("ok?", "stop", "False"),
        ("a", "each", ""),
    ]
    flow = Flow(
        (*(Node(name, kind) for name, kind in kinds.items()), Node("note", "Comment")),
        (*(Edge(*edge) for edge in edges), Edge("each", "e", "Exit"), Edge("note", "a")),
        name="Small",
    )
    assert outline(flow, PLATFORM).splitlines() == [
        "Small (platform): 7 nodes, 7 edges",
        "",
        "1  Start · s",
        "2  ForEach · each",
        "3  ▸ Cycle: If · ok?",
        "4    ▸ True: Assign · a",
        "5        + Comment · note",
        "       → 2 ForEach · each",
        "6    ▸ False: RaiseError · stop",
        "7  ▸ Exit: End · e",
    ]


GRAPHS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.sampled_from(["main", "ai_tool"])), max_size=14)


@given(GRAPHS)
@settings(max_examples=80, deadline=None)
def test_every_node_has_one_line_and_every_edge_is_shown(edges: list[tuple[int, int, str]]) -> None:
    flow = with_start_and_ends(
        [Node(f"n{i}x", "kind") for i in range(8)],
        [Edge(f"n{a}x", f"n{b}x", label) for a, b, label in edges],
        N8N,
        is_attachment=is_attachment,
    ).flow
    lines = outline(flow, N8N).splitlines()[2:]
    numbers = [int(line.split()[0]) for line in lines if re.match(r" *\d", line)]
    assert numbers == list(range(1, len(flow.nodes) + 1))
    assert len(lines) >= len(flow.edges)


def test_a_file_cannot_write_on_the_terminal() -> None:
    flow = Flow(
        (Node("\x1b[2J", "Start\x07"), Node("\u202eb", "x\ny")),
        (Edge("\x1b[2J", "\u202eb", "\x1b]0;t\x07"),),
        name="a\x1b",
    )
    assert all(line.isprintable() for line in outline(flow, N8N).splitlines())


def test_a_deep_flow_is_written_without_recursion_and_within_bounds() -> None:
    nodes = [Node("s", "Start"), *(Node(f"n{i}", "If") for i in range(5000))]
    edges = [Edge("s", "n0")]
    for i in range(0, 4998, 2):
        edges += [Edge(f"n{i}", f"n{i + 1}"), Edge(f"n{i}", f"n{i + 2}")]
    text = outline(Flow(tuple(nodes), tuple(edges)), PLATFORM)
    assert max(map(len, text.splitlines())) < 100
