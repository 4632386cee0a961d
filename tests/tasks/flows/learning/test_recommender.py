"""The recommender asks the model what it was trained to answer, about any flow under construction."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.formats.read_flow import read_draft
from fedloom.tasks.flows.learning import flow_federation
from fedloom.tasks.flows.learning.placement_order import placement_order
from fedloom.tasks.flows.learning.recommender import Recommender
from fedloom.tasks.flows.learning.saved_flow_model import SavedFlowModel
from fedloom.tasks.flows.rules import BPMN, N8N
from fedloom.training.threads import single_thread
from support import small_flows
from support.paths import FLOW_EXAMPLES

EXAMPLES = FLOW_EXAMPLES
TASK = small_flows.task()
RECOMMENDER = Recommender(SavedFlowModel.of_task(TASK, TASK.initial_row()))
START = Node("start", "Start")


def draft(*kinds: str) -> Flow:
    """A chain of actions behind a start, with no end."""
    nodes = (START, *(Node(f"{i}", kind, {"name": kind.lower()}) for i, kind in enumerate(kinds)))
    return Flow(nodes, tuple(Edge(a.id, b.id) for a, b in pairwise(nodes)))


def test_a_training_prefix_gets_exactly_what_the_model_predicts_for_its_data_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flow_federation, "placement_order", lambda flow, seed, start: placement_order(flow, 7, start))  # noqa: ARG005
    task = small_flows.task()
    corpus, compared, number = small_flows.corpus(), 0, 0
    points = task.federation.columns["x"]
    for organisation in corpus.organisations:
        for flow in organisation.flows:
            order = [flow.nodes[node] for node in placement_order(flow, 7)]
            for position in (points[:, 0] == number).nonzero().flatten().tolist():
                before, target = order[: points[position, 2] - 1], order[points[position, 2] - 1]
                known = {node.id for node in before}
                into = [edge for edge in flow.edges if edge.target == target.id and edge.source in known]
                if len(into) > 1:  # the recommender is question for an action after one node
                    continue
                edges = tuple(edge for edge in flow.edges if {edge.source, edge.target} <= known)
                partial = replace(flow, nodes=tuple(before), edges=edges)
                question = RECOMMENDER.question(partial, into[0].source, into[0].label)
                expected = task.inputs(torch.tensor([position]))
                assert torch.equal(RECOMMENDER.inputs(question), expected)
                with torch.no_grad(), single_thread():
                    chances = task.model(expected)[0].softmax(0)
                assert torch.equal(RECOMMENDER.probabilities(question), chances)
                compared += 1
            number += 1
    assert compared > 60


def test_a_row_is_what_the_recommender_predicts_with() -> None:
    row = torch.randn(TASK.layout.width, generator=torch.Generator().manual_seed(1))
    other = Recommender(SavedFlowModel.of_task(TASK, row))
    assert torch.equal(TASK.layout.row(other.saved.model), row)
    assert other.recommend(draft("If")) != RECOMMENDER.recommend(draft("If"))


@given(st.lists(st.sampled_from(["Assign", "If", "DataSet", "SendEmail", "Download"]), max_size=6), st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_probabilities_sum_to_one_and_suggestions_are_the_best_of_them(kinds: list[str], top: int) -> None:
    flow = draft(*kinds)
    classes = RECOMMENDER.saved.classes
    chances = dict(zip(classes, RECOMMENDER.probabilities(RECOMMENDER.question(flow)).tolist(), strict=True))
    assert sum(chances.values()) == pytest.approx(1, abs=1e-5)
    suggestions = RECOMMENDER.recommend(flow, top)
    assert len(suggestions) == min(top, len(classes))
    assert [s.probability for s in suggestions] == sorted(chances.values(), reverse=True)[:top]
    assert all(chances[kind] == probability for kind, probability in suggestions)


def test_an_empty_flow_has_a_first_action() -> None:
    assert len(RECOMMENDER.recommend(Flow((START,), ()))) == 5


def test_the_next_action_follows_the_last_open_end() -> None:
    nodes = (START, Node("a", "If"), Node("b", "Assign"), Node("c", "DataSet"), Node("end", "End"))
    flow = Flow(nodes, (Edge("start", "a"), Edge("a", "b", "True"), Edge("a", "c", "False"), Edge("start", "end")))
    assert RECOMMENDER.question(flow).edges[-1].source == "c"
    assert RECOMMENDER.recommend(flow) == RECOMMENDER.recommend(flow, after="c", label="")
    assert RECOMMENDER.recommend(flow) != RECOMMENDER.recommend(flow, after="b")
    assert RECOMMENDER.recommend(flow, after="a", label="True") != RECOMMENDER.recommend(flow, after="a", label="False")


def test_what_a_flow_calls_its_nodes_does_not_matter() -> None:
    flow = draft("Assign", "If")
    names = {"start": "next", "0": "next'", "1": "z"}
    nodes = tuple(replace(node, id=names[node.id]) for node in flow.nodes)
    renamed = Flow(nodes, tuple(Edge(names[e.source], names[e.target]) for e in flow.edges))
    assert RECOMMENDER.recommend(flow) == RECOMMENDER.recommend(renamed)


def test_a_node_is_found_by_its_id_or_by_a_name_that_only_it_has() -> None:
    flow = draft("Assign", "If", "Assign")
    assert RECOMMENDER.question(flow, "if").edges[-1].source == "1"
    assert RECOMMENDER.question(flow, "1").edges[-1].source == "1"
    with pytest.raises(FedloomError, match="2 nodes of this flow have the name 'assign': use an id, such as '0', '2'"):
        RECOMMENDER.question(flow, "assign")


def test_words_that_the_model_does_not_know_are_named_once() -> None:
    nodes = (START, Node("a", "Download", {"module": "Sales", "colour": "red"}), Node("b", "Download", {"module": "X"}))
    question = RECOMMENDER.question(Flow(nodes, (Edge("start", "a"), Edge("a", "b")), {"type": "toy"}), label="Maybe")
    assert RECOMMENDER.unknown_words(question) == [
        ("node", "kind", "Download"),
        ("node", "module", "X"),
        ("edge", "label", "Maybe"),
        ("flow", "type", "toy"),
    ]
    assert RECOMMENDER.unknown_words(RECOMMENDER.question(small_flows.flow(1), "if", "True")) == []


@pytest.mark.parametrize(
    ("flow", "question", "message"),
    [
        (small_flows.flow(1), {}, "every branch of this flow has reached an end"),
        (
            small_flows.flow(1),
            {"after": "True end"},
            "'True end' is an end of this flow",
        ),
        (small_flows.flow(1), {"after": "iff"}, "this flow has no node 'iff': did you mean 'if'?"),
        (draft("Assign"), {"top": 0}, "top=0: it must be at least 1"),
        (draft("Sing"), {}, "the rule 'known kinds' is broken"),
        (Flow((), ()), {}, "the rule 'one start' is broken"),
    ],
)
def test_what_cannot_be_answered_is_said_in_one_sentence(flow: Flow, question: dict[str, object], message: str) -> None:
    with pytest.raises(FedloomError) as caught:
        RECOMMENDER.recommend(flow, **question)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_that_takes_no_flows_is_refused() -> None:
    with pytest.raises(FedloomError, match="has no FullGN model of flows"):
        SavedFlowModel.of_task(replace(TASK, prepare=None), TASK.initial_row())


def test_a_draft_keeps_its_open_ends() -> None:
    n8n = read_draft(EXAMPLES / "support_mail.n8n.json", N8N).flow
    assert not any(node.kind == "End" for node in n8n.nodes)
    bpmn = read_draft(EXAMPLES / "invoice.bpmn", BPMN).flow
    assert any(node.kind == "End" for node in bpmn.nodes)  # ends that are drawn stay


def test_an_n8n_page_with_nothing_on_it_is_an_empty_flow(tmp_path: Path) -> None:
    page = tmp_path / "new.json"
    page.write_text('{"name": "New", "nodes": [], "connections": {}}')
    assert [node.kind for node in read_draft(page).flow.nodes] == ["Start"]


def test_in_n8n_the_next_action_follows_by_main_and_after_the_start_by_nothing() -> None:
    recommender = Recommender(replace(RECOMMENDER.saved, dialect=N8N))
    assert recommender.question(draft("Assign")).edges[-1].label == "main"
    assert recommender.question(draft("Assign"), "start").edges[-1].label == ""
    assert recommender.question(draft("Assign"), label="").edges[-1].label == ""
