"""Copies of a flow: found whatever the order and the names of their nodes, and never on two sides."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedloom as fl
from fedloom.core.task import Task
from fedloom.tasks.flows.corpus import Corpus, Organisation
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.formats.real_corpora import BPMN_FILE, N8N_FILE, read_bpmn, read_n8n
from fedloom.tasks.flows.learning.duplicates import duplicate_numbers
from fedloom.tasks.flows.learning.flow_source import RealFlowOptions, suitable_organisations
from fedloom.tasks.flows.learning.flow_task import task_of_corpus
from support import small_flows
from support.paths import DATA_FOLDER


def copy_of(flow: Flow, order: list[int]) -> Flow:
    """The same flow with other names, its nodes in another order."""
    name = {flow.nodes[place].id: f"n{number}" for number, place in enumerate(order)}
    nodes = tuple(replace(flow.nodes[place], id=name[flow.nodes[place].id]) for place in order)
    edges = tuple(Edge(name[e.source], name[e.target], e.label, e.attributes) for e in reversed(flow.edges))
    return Flow(nodes, edges, {"template": "7"}, "a copy")


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 30), st.randoms(use_true_random=False))
def test_a_copy_has_its_flows_number(number: int, random) -> None:
    flow, other = small_flows.flow(number), small_flows.flow(number + 1000)
    order = list(range(len(flow.nodes)))
    random.shuffle(order)
    first, second, third = duplicate_numbers([flow, other, copy_of(flow, order)])
    assert first == third
    assert (first == second) == (flow.nodes == other.nodes and flow.edges == other.edges)


def test_flows_that_differ_in_an_edge_an_attribute_or_a_label_differ() -> None:
    nodes = tuple(Node(name, "Assign", {"module": "Sales"}) for name in "abcd")
    chain = Flow(nodes, (Edge("a", "b"), Edge("b", "c"), Edge("c", "d")))
    star = Flow(nodes, (Edge("a", "b"), Edge("a", "c"), Edge("a", "d")))
    named = replace(chain, edges=(*chain.edges[:2], Edge("c", "d", "True")))
    turned = replace(chain, edges=(*chain.edges[:2], Edge("d", "c")))
    mail = replace(chain, nodes=(*nodes[:3], Node("d", "Assign", {"module": "Mail"})))
    assert duplicate_numbers([chain, star, named, turned, mail, chain]).tolist() == [0, 1, 2, 3, 4, 0]


def sides(task: Task) -> dict[int, set[tuple[str, int]]]:
    """The parts and clients of each flow of a task."""
    held, flow_of = task.federation, task.federation.columns["x"][:, 0]
    found: dict[int, set[tuple[str, int]]] = {}
    for part in ("train", "valid", "test"):
        lists = getattr(held, part)
        for flow, client in zip(flow_of[lists.order].tolist(), lists.owners.tolist(), strict=True):
            found.setdefault(flow, set()).add((part, client))
    return found


def check_copies_are_together(corpus: Corpus, task: Task) -> list[set[tuple[str, int]]]:
    """The parts and clients of each flow with its copies, after checking that they are in one part."""
    numbers = duplicate_numbers([flow for o in corpus.organisations for flow in o.flows])
    together: dict[int, set[tuple[str, int]]] = {}
    for flow, places in sides(task).items():
        together.setdefault(int(numbers[flow]), set()).update(places)
    assert all(len({part for part, _ in places}) == 1 for places in together.values())
    return list(together.values())


@pytest.mark.parametrize("seed", range(5))
def test_copies_are_in_one_part_and_those_of_several_organisations_are_for_training(seed: int) -> None:
    plain = small_flows.corpus(3, 8)
    common = small_flows.flow(500)
    organisations = [Organisation(o.name, (*o.flows, *o.flows[:3], o.flows[0], common)) for o in plain.organisations]
    corpus = replace(plain, organisations=tuple(organisations))
    task = task_of_corpus(corpus, "t", test_share=0.2, valid_share=0.2, seed=seed)
    places = check_copies_are_together(corpus, task)
    assert {("train", 0), ("train", 1), ("train", 2)} in places
    assert min(int(part.sizes.min()) for part in (task.federation.train, task.federation.valid, task.federation.test))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "file", "read"), [("n8n", N8N_FILE, read_n8n), ("bpmn", BPMN_FILE, read_bpmn)])
def test_no_copy_of_a_real_flow_is_on_two_sides(name: str, file: str, read, monkeypatch) -> None:
    if not (DATA_FOLDER / file).is_file():
        pytest.skip(f"{file} is not in {DATA_FOLDER}")
    monkeypatch.setenv("FEDLOOM_DATA", str(DATA_FOLDER))
    corpus = suitable_organisations(read(), RealFlowOptions(), "unknown")
    places = check_copies_are_together(corpus, fl.task(name, test_share=0.15, valid_share=0.15))
    assert len(places) == {"n8n": 4635, "bpmn": 3114}[name]  # of 5,013 and 3,718 flows
