"""Packed corpora hold what their arrays say, come back the same from a file of ours, and are refused when damaged."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.corpus import Corpus, Organisation
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.formats.flow_json import to_json
from fedloom.tasks.flows.formats.packed_corpus import read_packed, write_packed
from fedloom.tasks.flows.formats.read_corpus import read_corpus
from fedloom.tasks.flows.formats.read_flow import from_bytes, read_flow
from fedloom.tasks.flows.formats.real_corpora import (
    BPMN_FILE,
    N8N_FILE,
    N8N_TITLES,
    N8N_VOCABULARY,
    read_bpmn,
    read_n8n,
)
from fedloom.tasks.flows.rules import BPMN, N8N, PLATFORM, Dialect, validate
from support.paths import DATA_FOLDER, FLOW_EXAMPLES

EXAMPLE = FLOW_EXAMPLES / "order_approval.json"

N8N_ARRAYS: dict[str, Any] = {
    "node_ptr": [0, 3, 4],
    "node_type": [1, 0, 2, 0],
    "node_type_version": np.array([1, 4.2, 1.1, 0], np.float16),
    "node_operation": [0, 1, 0, 0],
    "node_resource": [0, 1, 0, 0],
    "node_disabled": np.array([False, True, False, False]),
    "edge_ptr": [0, 4, 4],
    "edge_src": [0, 0, 2, 1],
    "edge_dst": [1, 1, 1, 1],
    "edge_type": [0, 0, 1, 0],
    "edge_output": [0, 1, 0, 0],
    "edge_input": [0, 2, 0, 0],
    "graph_template_id": [7, 8],
    "graph_owner": [-1, 0],
    "category_ptr": [0, 2, 2],
    "category_idx": [1, 0],
}
VOCABULARY = {
    "node_type": ["n8n-nodes-base.code", "n8n-nodes-base.webhook", "@n8n/n8n-nodes-langchain.lmChat"],
    "operation": ["", "get"],
    "resource": ["", "file"],
    "edge_type": ["main", "ai_languageModel"],
    "category": ["AI", "Sales"],
}
BPMN_ARRAYS: dict[str, Any] = {
    "node_ptr": [0, 3, 5],
    "node_type": [0, 1, 2, 1, 1],
    "edge_ptr": [0, 2, 3],
    "edge_src": [0, 1, 0],
    "edge_dst": [1, 2, 1],
    "edge_type": [0, 0, 1],
    "graph_language": [1, 0],
    "graph_exercise": [0, 0],
    "graph_is_solution": np.array([True, False]),
    "node_type_names": np.array(["startEvent", "task", "endEvent:terminate"]),
}


def write_corpora(folder: Path, n8n: dict[str, Any] = N8N_ARRAYS, bpmn: dict[str, Any] = BPMN_ARRAYS) -> Path:
    for name, arrays in ((N8N_FILE, n8n), (BPMN_FILE, bpmn)):
        np.savez(folder / name, **{key: np.asarray(value) for key, value in arrays.items()})
    (folder / N8N_VOCABULARY).write_bytes(gzip.compress(json.dumps(VOCABULARY).encode()))
    return folder


def flows(corpus: Corpus) -> list[Flow]:
    return [flow for organisation in corpus.organisations for flow in (*organisation.flows, *organisation.extra)]


def test_an_n8n_corpus_holds_what_its_arrays_say(tmp_path: Path) -> None:
    corpus = read_n8n(write_corpora(tmp_path))
    assert [(one.name, len(one.flows)) for one in corpus.organisations] == [("owner 0", 1), ("unknown", 1)]
    assert (corpus.self_loops, corpus.merged, corpus.dialect) == (1, 1, N8N)
    lone, flow = flows(corpus)
    assert lone.nodes == (
        Node("Start", "Start"),
        Node("0", "n8n-nodes-base.code", {"version": "0"}),
        Node("End", "End"),
    )
    assert lone.attributes == {"template": "8"}
    assert flow.attributes == {"template": "7", "category": "Sales"}
    assert flow.nodes[1:4] == (
        Node("0", "n8n-nodes-base.webhook", {"version": "1"}),
        Node("1", "n8n-nodes-base.code", {"version": "4.2", "operation": "get", "resource": "file", "disabled": "yes"}),
        Node("2", "@n8n/n8n-nodes-langchain.lmChat", {"version": "1.1"}),
    )
    assert flow.edges == (
        Edge("Start", "0"),
        Edge("0", "1", "main+main 1", {"input": "2"}),
        Edge("2", "1", "ai_languageModel"),
        Edge("1", "End", "main"),
    )


def test_a_packed_graph_is_the_flow_that_its_export_is(tmp_path: Path) -> None:
    """The same workflow as an export, with the numbers as names."""
    link = {"node": "1", "type": "main", "index": 0}
    export = {
        "nodes": [
            {"name": "0", "type": "n8n-nodes-base.webhook", "typeVersion": 1},
            {
                "name": "1",
                "type": "n8n-nodes-base.code",
                "typeVersion": 4.2,
                "disabled": True,
                "parameters": {"operation": "get", "resource": "file"},
            },
            {"name": "2", "type": "@n8n/n8n-nodes-langchain.lmChat", "typeVersion": 1.1},
        ],
        "connections": {
            "0": {"main": [[link], [{**link, "index": 2}]]},
            "1": {"main": [[link]]},
            "2": {"ai_languageModel": [[link]]},
        },
    }
    reading = from_bytes(json.dumps(export).encode(), "f.json")
    (flow,) = read_n8n(write_corpora(tmp_path)).organisations[1].flows
    assert replace(flow, attributes={}) == reading.flow


def test_titles_become_names_where_they_are_there(tmp_path: Path) -> None:
    write_corpora(tmp_path)
    (tmp_path / N8N_TITLES).write_bytes(gzip.compress("Sell é\nFile\n".encode()))
    assert [flow.name for flow in flows(read_n8n(tmp_path))] == ["File", "Sell é"]
    (tmp_path / N8N_TITLES).write_bytes(gzip.compress(b"one\n"))
    with pytest.raises(FedloomError, match="1 titles for 2 flows"):
        read_n8n(tmp_path)


def test_a_bpmn_corpus_holds_what_its_arrays_say(tmp_path: Path) -> None:
    corpus = read_bpmn(write_corpora(tmp_path))
    assert [one.name for one in corpus.organisations] == ["exercise 0, language 0", "exercise 0, language 1"]
    second, first = flows(corpus)
    assert first.nodes == (
        Node("0", "Start", {"type": "startEvent"}), Node("1", "task"), Node("2", "End", {"type": "endEvent:terminate"}),
    )  # fmt: skip
    assert first.attributes == {"exercise": "0", "language": "1", "solution": "yes"}
    assert second.edges == (Edge("Start", "0"), Edge("0", "1", "message"), Edge("1", "End"))


def test_a_corpus_comes_back_the_same_and_so_do_its_bytes(tmp_path: Path) -> None:
    write_corpora(tmp_path)
    flow, dialect = read_flow(EXAMPLE)
    own = Corpus((Organisation("Ünï", (flow, flow), (flow,)), Organisation("none", ())), dialect, "Mine")
    odd = Dialect("odd", "Go", frozenset({"Stop"}), None, "loops", frozenset({"x"}))
    tiny = Corpus((Organisation("o", (Flow((Node("", "Go"), Node("b", "Stop")), (Edge("", "b"),)),)),), odd)
    for corpus in (read_n8n(tmp_path), read_bpmn(tmp_path), own, tiny, Corpus((), N8N)):
        write_packed(corpus, tmp_path / "one.npz")
        again = read_packed(tmp_path / "one.npz")
        assert again == corpus
        write_packed(again, tmp_path / "two.npz")
        assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
        assert read_corpus(tmp_path / "two.npz") == corpus
    assert read_corpus(tmp_path / N8N_FILE) == read_n8n(tmp_path)


def test_only_flows_that_keep_the_rules_are_packed(tmp_path: Path) -> None:
    broken = Corpus((Organisation("o", (Flow((Node("s", "Start"),), ()),)),), PLATFORM)
    with pytest.raises(FedloomError, match="terminal ends"):
        write_packed(broken, tmp_path / "p.npz")
    assert not (tmp_path / "p.npz").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"edge_dst": [1, 1, 3, 1]}, "'edge_dst' refers to nodes that do not exist"),
        ({"edge_src": [0, 0, -1, 1]}, "'edge_src' refers to nodes"),
        ({"node_type": [1, 0, 3, 0]}, "'node_type' has numbers outside 0 to 2"),
        ({"node_type": [1, 0, 2]}, "'node_type' has 3 entries instead of 4"),
        ({"node_ptr": [0, 3, 2]}, "'node_ptr' does not rise"),
        ({"node_ptr": [1, 3, 4]}, "'node_ptr' does not rise"),
        ({"edge_ptr": [0, 4]}, "'edge_ptr' has 2 entries instead of 3"),
        ({"edge_type": [0.0, 0.0, 1.0, 0.0]}, "'edge_type' is not a plain list of numbers"),
        ({"graph_owner": [-2, 0]}, "'graph_owner' has numbers outside -1"),
        ({"category_idx": [9, 0]}, "'category_idx'"),
        ({"node_disabled": [[1, 2], [3, 4]]}, "'node_disabled'"),
    ],
)
def test_damaged_arrays_are_named(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(FedloomError) as error:
        read_n8n(write_corpora(tmp_path, N8N_ARRAYS | change))
    assert said in str(error.value)


def test_missing_and_foreign_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FedloomError, match="missing"):
        read_n8n(tmp_path)
    write_corpora(tmp_path)
    with pytest.raises(FedloomError, match="has no array"):
        read_packed(tmp_path / BPMN_FILE)
    (tmp_path / N8N_VOCABULARY).write_bytes(b"no gzip")
    with pytest.raises(FedloomError, match="not a readable"):
        read_n8n(tmp_path)
    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04 no zip")
    with pytest.raises(FedloomError, match="not a readable"):
        read_corpus(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        ("header", np.frombuffer(b'{"format": "x"}', np.uint8), "format 'fedloom-flows'"),
        ("header", np.frombuffer(b"{", np.uint8), "not valid JSON"),
        ("header", np.zeros(3, np.uint16), "is not a list of bytes"),
        ("texts", np.frombuffer(b"[]", np.uint8), "has numbers outside"),
        ("texts", np.frombuffer(b"[1]", np.uint8), "expected a text"),
        ("organisation_flows", np.array([5], np.int32), "does not add up"),
        ("edge_target", np.full(14, 99, np.int32), "refers to nodes that do not exist"),
    ],
)
def test_a_damaged_file_of_ours_is_refused(tmp_path: Path, name: str, array: np.ndarray, said: str) -> None:
    flow, dialect = read_flow(EXAMPLE)
    write_packed(Corpus((Organisation("o", (flow,)),), dialect), tmp_path / "p.npz")
    arrays = dict(np.load(tmp_path / "p.npz")) | {name: array}
    np.savez(tmp_path / "p.npz", **arrays)
    with pytest.raises(FedloomError) as error:
        read_packed(tmp_path / "p.npz")
    assert said in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "read", "held_by"),
    [(N8N_FILE, read_n8n, ("graph_owner",)), (BPMN_FILE, read_bpmn, ("graph_exercise", "graph_language"))],
)
def test_the_real_corpora_keep_their_rules_and_come_back_the_same(
    tmp_path: Path, file: str, read: Callable[[Path], Corpus], held_by: tuple[str, ...]
) -> None:
    """Every real flow keeps the rules, all have the nodes and edges of the arrays, and survive our two formats."""
    if not (DATA_FOLDER / file).is_file():
        pytest.skip(f"no {file} in the data folder")
    begun = time.process_time()
    corpus = read(DATA_FOLDER)
    assert time.process_time() - begun < 10
    begun = time.process_time()
    for flow in flows(corpus):
        validate(flow, corpus.dialect)
    assert time.process_time() - begun < 2
    write_packed(corpus, tmp_path / "p.npz")
    assert read_packed(tmp_path / "p.npz") == corpus
    for flow in flows(corpus)[::50]:
        assert from_bytes(to_json(flow, corpus.dialect).encode(), "f").flow == flow
    arrays = dict(np.load(DATA_FOLDER / file))
    assert len(flows(corpus)) == len(arrays["node_ptr"]) - 1
    assert len(corpus.organisations) == len(np.unique([arrays[name] for name in held_by], axis=1).T)
    graph = np.repeat(np.arange(len(arrays["edge_ptr"]) - 1), np.diff(arrays["edge_ptr"]))
    joins = np.stack([graph, arrays["edge_src"], arrays["edge_dst"]])
    looping = joins[1] == joins[2]
    joined = len(np.unique(joins[:, ~looping], axis=1).T)
    assert corpus.self_loops == looping.sum()
    assert corpus.merged == (~looping).sum() - joined
    nodes = [node for flow in flows(corpus) for node in flow.nodes]
    edges = [edge for flow in flows(corpus) for edge in flow.edges]
    assert sum(node.id.isdigit() for node in nodes) == len(arrays["node_type"])
    assert sum(edge.source.isdigit() and edge.target.isdigit() for edge in edges) == joined


def test_bpmn_corpora_and_files_speak_one_dialect(tmp_path: Path) -> None:
    assert read_bpmn(write_corpora(tmp_path)).dialect is BPMN
