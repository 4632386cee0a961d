"""An n8n export becomes the flow it is: types as kinds, outputs as labels, tools leading into their agent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.formats.flow_json import to_json
from fedloom.tasks.flows.formats.read_flow import from_bytes, read
from fedloom.tasks.flows.formats.start_and_ends import Reading
from fedloom.tasks.flows.rules import N8N, validate
from support.paths import FLOW_EXAMPLES

EXAMPLE = FLOW_EXAMPLES / "support_mail.n8n.json"


def node(name: str, kind: str = "n8n-nodes-base.set", **more: Any) -> dict[str, Any]:
    return {"id": name * 3, "name": name, "type": kind, "typeVersion": 1, "position": [0, 0], "parameters": {}, **more}


def link(name: str, kind: str = "main", index: int = 0) -> dict[str, Any]:
    return {"node": name, "type": kind, "index": index}


def read_workflow(nodes: list[Any], connections: Any, **more: Any) -> Reading:
    reading = from_bytes(json.dumps({"nodes": nodes, "connections": connections, **more}).encode(), "f.json")
    validate(reading.flow, N8N)
    again = from_bytes(to_json(reading.flow, N8N).encode(), "f.json")
    assert again.flow == reading.flow
    return reading


def edges(reading: Reading) -> set[tuple[str, str, str]]:
    return {(edge.source, edge.target, edge.label) for edge in reading.flow.edges}


def test_the_example_is_read_as_it_is_drawn() -> None:
    reading = read(EXAMPLE)
    flow = reading.flow
    validate(flow, N8N)
    assert flow.name == "Sort support mail"
    kinds = {node.id: node.kind for node in flow.nodes}
    assert kinds["Urgent?"] == "n8n-nodes-base.if"
    assert kinds["Sort the mail"] == "@n8n/n8n-nodes-langchain.agent"
    assert "Sticky Note" not in kinds
    assert edges(reading) == {
        ("Start", "New support mail", ""),
        ("New support mail", "Sort the mail", "main"),
        ("Chat model", "Sort the mail", "ai_languageModel"),
        ("Topic and urgency", "Sort the mail", "ai_outputParser"),
        ("Sort the mail", "Urgent?", "main"),
        ("Urgent?", "Tell the team", "main"),
        ("Urgent?", "Note the ticket", "main+main 1"),
        ("Tell the team", "Confirm receipt", "main"),
        ("Note the ticket", "Confirm receipt", "main"),
        ("Confirm receipt", "End", "main"),
    }
    assert reading.merged == 1
    attributes = next(node.attributes for node in flow.nodes if node.id == "Tell the team")
    assert attributes == {"version": "2.2", "operation": "post", "resource": "message"}


def test_outputs_and_inputs_are_told_where_they_are_not_the_first() -> None:
    reading = read_workflow(
        [node("a"), node("b"), node("c")], {"a": {"main": [[link("b")], None, [link("c", index=1)]]}}
    )
    assert {("a", "b", "main"), ("a", "c", "main 2")} < edges(reading)
    assert [edge.attributes for edge in reading.flow.edges if edge.target == "c"] == [{"input": "1"}]


def test_a_node_keeps_what_is_a_word_and_that_it_is_disabled() -> None:
    words = {"operation": "send", "resource": {"__rl": True, "value": "x"}, "other": 1}
    (made,) = (
        n
        for n in read_workflow([node("a", typeVersion=2.1, parameters=words, disabled=True)], {}).flow.nodes
        if n.id == "a"
    )
    assert made.attributes == {"version": "2.1", "operation": "send", "disabled": "yes"}


def test_self_loops_are_dropped_and_counted() -> None:
    reading = read_workflow([node("a"), node("b")], {"a": {"main": [[link("b")], [link("a")]]}})
    assert reading.self_loops == 1
    assert edges(reading) == {("Start", "a", ""), ("a", "b", "main"), ("b", "End", "main")}


def test_several_workflows_on_one_page_become_one_through_the_start() -> None:
    reading = read_workflow([node("a"), node("b"), node("c")], {"a": {"main": [[link("b")]]}})
    assert edges(reading) == {
        ("Start", "a", ""),
        ("Start", "c", ""),
        ("a", "b", "main"),
        ("b", "End", "main"),
        ("c", "End 2", "main"),
    }


def test_a_chain_of_tools_leads_into_its_agent_and_is_no_trigger() -> None:
    made = read_workflow(
        [node("embedding"), node("store"), node("agent"), node("trigger")],
        {
            "embedding": {"ai_embedding": [[link("store", "ai_embedding")]]},
            "store": {"ai_tool": [[link("agent", "ai_tool")]]},
            "trigger": {"main": [[link("agent")]]},
        },
    )
    assert [edge.target for edge in made.flow.edges if edge.source == "Start"] == ["trigger"]
    assert [edge.source for edge in made.flow.edges if edge.target == "End"] == ["agent"]


def test_a_workflow_that_only_loops_is_entered_at_its_first_node() -> None:
    made = read_workflow([node("a"), node("b")], {"a": {"main": [[link("b")]]}, "b": {"main": [[link("a")]]}})
    assert edges(made) == {("Start", "a", ""), ("a", "b", "main"), ("b", "a", "main")}


def test_leftovers_of_deleted_nodes_without_targets_are_no_matter() -> None:
    read_workflow([node("a")], {"a": {"main": [[]]}, "deleted": {"main": [[], None]}})


@pytest.mark.parametrize(
    ("nodes", "connections", "said"),
    [
        (
            [node("a")],
            {"a": {"main": [[link("b")]]}},
            "connections.a.main[0][0]: this connection names the node 'b'",
        ),
        ([node("a")], {"b": {"main": [[link("a")]]}}, "names the node 'b'"),
        ([node("a"), node("a")], {}, "at nodes[1].name: another node has the name 'a' too"),
        ([], {}, "at nodes: this workflow has no nodes"),
        ([node("a", "n8n-nodes-base.stickyNote")], {}, "has no nodes"),
        ([{"name": "a"}], {}, "at nodes[0]: the field 'type' is missing"),
        ([node("a", typeVersion="1")], {}, "at nodes[0].typeVersion"),
        ([node("a", typeVersion=1e999)], {}, "not a number"),
        ([node("a", parameters=[])], {}, "at nodes[0].parameters: expected an object"),
        ([node("a")], {"a": {"main": [link("a")]}}, "at connections.a.main[0]: expected a list"),
        ([node("a")], {"a": {"main": [[link("a", index=-1)]]}}, "the index of an input"),
        ([node("a")], [], "at connections: expected an object"),
    ],
)
def test_a_broken_export_is_refused_with_the_place(nodes: list[Any], connections: Any, said: str) -> None:
    with pytest.raises(FedloomError) as error:
        read_workflow(nodes, connections)
    assert said in str(error.value)
