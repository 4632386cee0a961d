"""A site's own graph under a run's schema, and graphs that do not fit it."""

from dataclasses import replace

import pytest
import torch

from fedloom.core.message import Message
from fedloom.data.schema import ClientSizes
from fedloom.rounds.jobs import Job
from fedloom.tasks.graphs.read import save_graph
from support.site_tasks import blueprint_of, check_refused, south
from support.small_graphs import clubs
from support.small_tables import write_rows


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """The task of a graph in two tables, whose nodes have two features and three named classes."""
    folder = tmp_path_factory.mktemp("operator") / "clubs"
    write_graph_tables(folder, ["x0", "x1"], ["ant", "bee", "cow"])
    task = {"name": "own-graph", "path": str(folder), "model_options": {"hidden": 4}, "valid_share": 0.25}
    return blueprint_of(task, local={"batch_size": 0})


def write_graph_tables(folder, features, classes, nodes=24, values=None):
    folder.mkdir(parents=True, exist_ok=True)
    half = nodes // 2
    rows = []
    for node in range(nodes):
        numbers = values or {name: node % 5 + place for place, name in enumerate(features)}
        rows.append([node, classes[node % len(classes)], *numbers.values()])
    write_rows(folder / "nodes.csv", ["id", "label", *features], rows)
    edges = [(a, b) for start in (0, half) for a in range(start, start + half) for b in range(a + 1, start + half)]
    write_rows(folder / "edges.csv", ["source", "target"], [*edges, (0, half)])
    return folder


def test_a_site_brings_its_own_graph_under_the_schemas_classes(graph, tmp_path):
    """It has no ants, and its feature columns stand in another order."""
    write_graph_tables(tmp_path / "mine", ["x1", "x0"], ["bee", "cow"], values={"x1": 3, "x0": 1})
    task = graph.site_task(south("mine"), tmp_path)
    federation = task.federation
    own = federation.graphs.original(1)
    assert graph.schema.features == ("x0", "x1")
    assert torch.allclose(own.features.to_dense(), torch.tensor([0.25, 0.75]).expand(24, 2))
    assert set(federation.columns["y"][federation.graphs.positions(1)].tolist()) == {1, 2}
    assert federation.graphs.sizes.tolist() == [1, 24]
    assert ClientSizes.of(federation, 1) == ClientSizes(train=14, valid=6, test=4, points=24)
    trained = graph.runtime(task).do(Job("update", 1, [1], [0]), Message({"row": graph.initial}), {})
    assert not torch.equal(trained["reply/row"][0], graph.initial)


def test_an_evaluator_may_have_a_graph(graph, tmp_path):
    write_graph_tables(tmp_path / "mine", ["x0", "x1"], ["bee", "cow"])
    runtime = graph.runtime(graph.site_task(south("mine", client=2), tmp_path))
    whole = runtime.do(Job("global", 1, [0, 24], []), Message({"row": graph.initial}), {})
    assert float(whole["counts"]) == 24


def test_graphs_that_do_not_fit_are_refused(graph, tmp_path):
    write_graph_tables(tmp_path / "narrow", ["x0"], ["bee"])
    check_refused(graph, south("narrow"), tmp_path, "nodes.csv has no feature column 'x1'")
    write_graph_tables(tmp_path / "strange", ["x0", "x1"], ["bee", "elk"])
    check_refused(graph, south("strange"), tmp_path, "strange: the label 'elk' of node 1 is not a class of the task")
    write_graph_tables(tmp_path / "many", ["x0", "x1"], ["0", "3"])
    check_refused(graph, south("many"), tmp_path, "many: the label '3' of node 1 is not a class of the task")
    save_graph(clubs(), tmp_path / "wide.npz")
    check_refused(graph, south("wide.npz"), tmp_path, "wide.npz: its nodes have 3 features, but the task's have 2")
    source = clubs(classes=2)
    nobody = {"train": torch.zeros(38, dtype=torch.bool), "test": source.parts["test"]}
    save_graph(replace(source, parts=nobody), tmp_path / "untrained.npz")
    check_refused(graph, south("untrained.npz"), tmp_path, "untrained.npz has no labelled node to train on")
