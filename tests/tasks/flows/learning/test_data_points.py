"""Batches: what a data point sees of its flow, worked out from the flow itself."""

from __future__ import annotations

import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.learning.data_points import FlowInputs, FlowTable
from fedloom.tasks.flows.learning.flow_schema import MASK, FlowSchema
from fedloom.tasks.flows.learning.placement_order import placement_order
from support import small_flows

LOOP = Flow(
    (Node("s", "Start"), Node("f", "ForEach"), Node("a", "Assign"), Node("e", "End")),
    (Edge("a", "f", "back"), Edge("s", "f"), Edge("f", "e", "exit"), Edge("f", "a", "cycle")),
)
SCHEMA = FlowSchema.of([LOOP])
ORDER = [0, 1, 2, 3]


def table(flows: list[Flow], seed: int = 0) -> FlowTable:
    return FlowTable.of(flows, [placement_order(flow, seed + i) for i, flow in enumerate(flows)], FlowSchema.of(flows))


def everything(made: FlowTable) -> torch.Tensor:
    return torch.ones(len(made.nodes), dtype=torch.bool)


def test_a_point_sees_the_edges_into_its_target_and_none_out_of_it() -> None:
    """Start -> ForEach -> Assign -> back to ForEach; ForEach -> End; placed in this order."""
    made = FlowTable.of([LOOP], [ORDER], SCHEMA)
    label = {word: SCHEMA.edge["label"].number(word) for word in ("", "cycle", "back", "exit")}
    assert made.edges.tolist() == [
        [0, 1, label[""]],
        [1, 2, label["cycle"]],
        [2, 1, label["back"]],
        [1, 3, label["exit"]],
    ]
    points, rows = made.points(everything(made))
    assert rows.tolist() == [1, 2, 3]
    #        flow, first node, nodes, first edge, edges: the edge back is there once Assign is no longer the target
    assert points.tolist() == [[0, 0, 2, 0, 1], [0, 0, 3, 0, 2], [0, 0, 4, 0, 4]]


def test_a_packed_row_is_what_the_model_takes() -> None:
    made = FlowTable.of([LOOP], [ORDER], SCHEMA)
    kind = [SCHEMA.node["kind"].number(node.kind) for node in LOOP.nodes]
    edges = made.edges.tolist()
    flow = SCHEMA.graph["flow"].number("")
    points, _ = made.points(everything(made))
    assert FlowInputs(made)(points[[0, 2]]).tolist() == [
        [4, 4, 2, 1, flow, kind[0], MASK, 0, 0, *edges[0], *[0] * 9],
        [4, 4, 4, 4, flow, kind[0], kind[1], kind[2], MASK, *edges[0], *edges[1], *edges[2], *edges[3]],
    ]
    assert FlowInputs(made)(points[:1]).tolist() == [[2, 1, 2, 1, flow, kind[0], MASK, *edges[0]]]


def test_nodes_that_nothing_placed_leads_to_are_no_targets() -> None:
    hanging = Flow((Node("s", "Start"), Node("a", "Agent"), Node("t", "Tool")), (Edge("s", "a"), Edge("t", "a")))
    made = FlowTable.of([hanging], [[0, 1, 2]], FlowSchema.of([hanging]))
    points, rows = made.points(everything(made))
    assert rows.tolist() == [1]
    assert points[0, 4] == 1  # the tool is not placed yet


def test_only_wanted_targets_are_points() -> None:
    made = table([small_flows.flow(i) for i in range(4)])
    wanted = torch.arange(len(made.nodes)) % 2 == 0
    points, rows = made.points(wanted)
    whole, all_rows = made.points(everything(made))
    assert torch.equal(points, whole[wanted[all_rows]])
    assert torch.equal(rows, all_rows[wanted[all_rows]])


@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_a_row_holds_the_flow_up_to_its_target_and_nothing_else(numbers: list[int], seed: int) -> None:
    """Read back from the packed tensor with loops, and compared with the flow and its order."""
    flows = [small_flows.flow(i) for i in numbers]
    orders = [placement_order(flow, seed + i) for i, flow in enumerate(flows)]
    schema = FlowSchema.of(flows)
    made = FlowTable.of(flows, orders, schema)
    points, rows = made.points(everything(made))
    assert len(points) == sum(len(flow.nodes) - 1 for flow in flows)  # all but the Start
    batch = FlowInputs(made)(points)
    node_words, edge_words, graph_words = (list(part.items()) for part in (schema.node, schema.edge, schema.graph))
    for row, (number, *_), target in zip(batch.tolist(), points.tolist(), rows.tolist(), strict=True):
        flow, order = flows[number], orders[number]
        at = target - int(made.first_node[number])
        most_nodes, _, nodes, edges, *rest = row
        assert nodes == at + 1
        graph, rest = rest[: len(graph_words)], rest[len(graph_words) :]
        assert graph == [words.number(flow.attributes.get(name, "")) for name, words in graph_words]
        placed_nodes = [flow.nodes[i] for i in order[:at]]
        expected = [
            words.number(node.kind if name == "kind" else node.attributes.get(name, ""))
            for node in placed_nodes
            for name, words in node_words
        ]
        assert rest[: len(expected)] == expected
        assert not any(rest[len(expected) : most_nodes * len(node_words)])
        rest = rest[most_nodes * len(node_words) :]
        width = 2 + len(edge_words)
        seen = {tuple(rest[i * width : (i + 1) * width]) for i in range(edges)}
        place = {flow.nodes[node].id: i for i, node in enumerate(order)}
        assert seen == {
            (place[e.source], place[e.target], schema.edge["label"].number(e.label))
            for e in flow.edges
            if place[e.source] < at and place[e.target] <= at
        }
        assert not any(rest[edges * width :])


def test_points_of_many_flows_are_those_of_each_alone() -> None:
    flows = [small_flows.flow(i) for i in range(6)]
    schema, orders = FlowSchema.of(flows), [placement_order(flow, i) for i, flow in enumerate(flows)]
    together = FlowTable.of(flows, orders, schema)
    points, _ = together.points(everything(together))
    for i, flow in enumerate(flows):
        alone = FlowTable.of([flow], [orders[i]], schema)
        own, _ = alone.points(everything(alone))
        assert torch.equal(FlowInputs(together)(points[points[:, 0] == i]), FlowInputs(alone)(own))


def test_flows_without_edges_make_no_points() -> None:
    lone = Flow((Node("s", "Start"),), ())
    made = FlowTable.of([lone, LOOP, lone], [[0], ORDER, [0]], FlowSchema.of([lone, LOOP]))
    points, _ = made.points(everything(made))
    assert points[:, 0].tolist() == [1, 1, 1]
    alone = FlowTable.of([lone], [[0]], SCHEMA)
    assert len(alone.points(everything(alone))[0]) == 0
    assert FlowInputs(alone)(torch.tensor([[0, 0, 1, 0, 0]])).tolist() == [[1, 0, 1, 0, 2, MASK]]


def test_inputs_survive_pickling_and_carry_their_schema() -> None:
    made = table([small_flows.flow(i) for i in range(3)])
    points, _ = made.points(everything(made))
    again = pickle.loads(pickle.dumps(FlowInputs(made)))  # noqa: S301
    assert torch.equal(again(points), FlowInputs(made)(points))
    assert again.schema == made.schema


def test_an_order_that_forgets_a_node_is_refused() -> None:
    with pytest.raises(FedloomError, match="each node of its flow once"):
        FlowTable.of([LOOP], [[0, 1, 2]], SCHEMA)
