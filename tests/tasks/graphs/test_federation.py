"""Federations of graphs: what a sample is, what travels with a copy, and how they play with everything else."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import fedloom as fl
from fedloom.config.resolve import task_from_config
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.runs.folder.load_config import load_config
from fedloom.tasks.graphs.federation import GraphFederation
from fedloom.tasks.graphs.labelled_graph import labelled_graph, with_parts
from fedloom.tasks.graphs.read import save_graph
from fedloom.tasks.graphs.split import split_graph
from fedloom.tasks.graphs.task import graph_task
from support.paths import DATA_FOLDER
from support.small_graphs import clubs

WORK = LocalWork(optimizer="adam", lr=0.05, batch_size=0, epochs=2)


def small_federation(clients=2):
    source = clubs()
    return source, GraphFederation.of(source, split_graph(source, clients))


def graph_task_of(name="own-graph", **changes):
    return fl.task(name, **{"clients": 2} | changes)


@pytest.fixture
def own(tmp_path):
    save_graph(clubs(), tmp_path / "clubs.npz")
    return str(tmp_path / "clubs.npz")


def test_a_sample_is_a_copy_and_its_part_travels_with_every_copy():
    source, federation = small_federation()
    graphs, ids = federation.graphs, federation.graphs.ids
    for part, lists in (("train", federation.train), ("valid", federation.valid), ("test", federation.test)):
        for client in range(2):
            here = graphs.graph(client).nodes
            assert ids[lists[client]].tolist() == here[source.parts[part][here]].tolist()
            assert set(graphs.blocks_of(lists[client]).tolist()) == {client}
    assert torch.equal(federation.columns["y"], source.labels[ids])
    assert torch.equal(federation.columns["x"], torch.arange(graphs.copies))


def test_a_node_on_the_border_is_a_sample_of_both_clients():
    _, federation = small_federation()
    shared = set(federation.graphs.anchor_ids[0].tolist()) & set(federation.graphs.anchor_ids[1].tolist())
    held = [set(federation.graphs.ids[federation.train[client]].tolist()) for client in range(2)]
    assert held[0] & held[1]
    assert held[0] & held[1] <= shared


def test_the_global_test_set_is_the_test_nodes_of_the_whole_graph():
    source, federation = small_federation()
    assert set(federation.graphs.blocks_of(federation.global_test).tolist()) == {federation.graphs.whole}
    assert torch.equal(federation.graphs.ids[federation.global_test], source.parts["test"].nonzero().flatten())


def test_pooled_data_are_the_training_nodes_of_the_whole_graph_each_once():
    source, federation = small_federation()
    pooled = federation.as_one_client()
    assert (pooled.clients, pooled.graphs) == (1, federation.graphs)
    assert torch.equal(federation.graphs.ids[pooled.train[0]], source.parts["train"].nonzero().flatten())
    assert set(federation.graphs.blocks_of(pooled.train[0]).tolist()) == {federation.graphs.whole}
    known = set(federation.graphs.ids[federation.train[0]].tolist())
    assert set(federation.graphs.ids[federation.as_one_client([1]).train[0]].tolist()) == known


def test_a_validated_federation_tests_on_validation_nodes_only():
    _, federation = small_federation()
    seen = federation.with_validation_as_test()
    assert torch.equal(seen.test.order, federation.valid.order)
    assert len(seen.global_test) == 0
    assert torch.equal(seen.points, federation.points)


def test_points_are_nodes_and_counts_are_labels():
    _, federation = small_federation()
    assert torch.equal(federation.points, federation.graphs.sizes)
    assert federation.counts().sum(1).tolist() == federation.train.sizes.tolist()
    assert graph_task(clubs(), 2).classifies


def test_a_client_without_a_training_label_is_refused_with_what_to_do():
    source = clubs((6, 6, 6))
    parts = {"train": torch.arange(18) < 5, "valid": torch.zeros(18, dtype=torch.bool), "test": torch.arange(18) >= 5}
    bare = labelled_graph(source.graph.edges, source.graph.features, source.labels, masks=parts)
    with pytest.raises(FedloomError, match="no node with a training label: use fewer clients, another seed"):
        graph_task(bare, 3)


def test_a_graph_without_parts_is_refused_until_they_are_drawn():
    source = labelled_graph(np.array([[0, 1], [1, 2]]), np.ones((20, 2)), np.arange(20) % 2)
    with pytest.raises(FedloomError, match="which nodes are for training"):
        graph_task(source, 1)
    assert int(graph_task(with_parts(source, 0.5, 0.0), 1).federation.train.sizes.sum()) == 10


def test_what_a_task_is_made_from_makes_it_again(own):
    task = graph_task_of(path=own, options={"split_seed": 3}, model_options={"hidden": 8}, seed=5)
    written = dict(task.made_from)
    assert written["options"] == {"mask": 0, "split_seed": 3}
    assert written["model_options"] == {"hidden": 8, "dropout": 0.3}
    again = graph_task_of(**written)
    assert torch.equal(again.initial_row(), task.initial_row())
    assert torch.equal(again.federation.train.order, task.federation.train.order)
    assert not torch.equal(graph_task_of(**{**written, "seed": 6}).initial_row(), task.initial_row())


def test_a_runs_config_makes_its_task_again(own, tmp_path):
    task = fl.task("own-graph", clients=2, path=own, model_options={"hidden": 8}, seed=5)
    fl.run(task, "fedavg", local=WORK, rounds=1, out=tmp_path / "run")
    again = task_from_config(load_config(tmp_path / "run"))
    assert again.made_from == task.made_from
    assert torch.equal(again.initial_row(), task.initial_row())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"drift": {"rounds": [2]}}, "drift"),
        ({"test_share": 0.3}, "already defines which nodes"),
        ({"options": {"per_class": 5}}, "already defines which nodes"),
        ({"options": {"colour": 1}}, "colour"),
        ({"options": {"split_seed": "x"}}, "split_seed"),
        ({"model": "mlp"}, "does not take nodes of a graph"),
        ({"model_options": {"depth": 3}}, "depth"),
        ({"model_options": {"dropout": 1.0}}, "dropout=1.0"),
        ({"model_options": {"hidden": 0}}, "hidden=0"),
        ({"path": None}, "needs a path"),
        ({"clients": 9}, "fewer clients"),
    ],
)
def test_what_a_graph_task_does_not_use_is_refused(own, changes, message):
    with pytest.raises(FedloomError, match=message):
        graph_task_of(**{"path": own} | changes)


def test_a_named_graph_has_no_path_and_no_settings_of_ones_own():
    with pytest.raises(FedloomError, match="own-graph"):
        graph_task_of("cora", path="x.npz")
    with pytest.raises(FedloomError, match="not for cora"):
        graph_task_of("cora", options={"normalise": True})


def test_a_class_can_be_withheld_from_a_clients_training_nodes(own):
    assert graph_task_of(path=own).federation.counts()[1, 1] > 0
    task = graph_task_of(path=own, withhold={"label": 1, "clients": [1]})
    assert task.federation.counts()[1, 1] == 0
    assert task.federation.withheld == (1, (1,))
    assert isinstance(task.federation, GraphFederation)


def test_runs_learn_and_give_the_same_bytes_with_two_workers():
    task = graph_task(clubs(), 4, model_options={"hidden": 16})
    settings = {"local": WORK, "rounds": 6, "seed": 1, "eval_every": 6}
    one = fl.run(task, "fedavg", **settings)
    two = fl.run(task, "fedavg", workers=2, **settings)
    assert torch.equal(one.row, two.row)
    largest = float(task.targets(task.federation.global_test).bincount().max()) / len(task.federation.global_test)
    assert one.records[-1]["metrics"]["global_model/global_test/accuracy"] > largest + 0.1
    assert one.config["execution"] == "loop"


def test_the_vectorised_execution_says_why_it_is_a_loop(caplog):
    task = graph_task(clubs(), 2, model_options={"hidden": 4})
    asked = fl.run(task, "fedavg", local=WORK, rounds=1, execution="vectorised")
    assert "graphs differ in size" in caplog.text
    assert torch.equal(asked.row, fl.run(task, "fedavg", local=WORK, rounds=1).row)


def test_all_data_in_one_place_train_on_the_whole_graph():
    task = graph_task(clubs(), 4, model_options={"hidden": 16, "dropout": 0.0})
    history = fl.run(task, "centralised", local=LocalWork(lr=0.5, batch_size=0, epochs=2), rounds=3)
    model, whole = copy.deepcopy(task.model), task.federation.as_one_client().train[0]
    for _ in range(6):
        loss = F.cross_entropy(model(whole), task.targets(whole))
        for weight, gradient in zip(model.parameters(), torch.autograd.grad(loss, model.parameters()), strict=True):
            weight.data -= 0.5 * gradient
    assert torch.allclose(task.layout.row(model), history.row, atol=1e-5)


def test_a_run_begins_without_the_edges_that_an_earlier_one_added():
    task = graph_task(clubs(), 2, model_options={"hidden": 4})
    before = fl.run(task, "fedavg", local=WORK, rounds=1).row
    task.federation.graphs.augment(0, torch.tensor([[0, 1], [14, 15]]))
    assert torch.equal(fl.run(task, "fedavg", local=WORK, rounds=1).row, before)


@pytest.mark.parametrize("method", ["fedprox", "scaffold", "fedrep", "local", "moon", "fedproto", "ditto"])
def test_methods_that_know_nothing_of_graphs_train_on_them(method):
    task = graph_task(clubs(), 2, model_options={"hidden": 8})
    work = LocalWork(lr=0.5, batch_size=0, epochs=3)
    history = fl.run(task, method, local=work, rounds=8, eval_every=8)
    first, last = (
        record["metrics"]["client_model/own_test/loss/mean"] for record in history.records[:: len(history.records) - 1]
    )
    assert last < 0.9 * first


def test_batches_smaller_than_a_clients_labels_train_too():
    task = graph_task(clubs(), 2, model_options={"hidden": 8})
    history = fl.run(task, "fedavg", local=LocalWork(lr=0.5, batch_size=4, epochs=2), rounds=5)
    assert history.records[-1]["metrics"]["global_model/global_test/accuracy"] > 0.6


def test_cora_is_a_task_with_the_parameters_that_are_known_of_it(monkeypatch):
    if not (DATA_FOLDER / "cora.npz").is_file():
        pytest.skip(f"cora.npz is not in {DATA_FOLDER}")
    monkeypatch.setenv("FEDLOOM_DATA", str(DATA_FOLDER))
    task = fl.task("cora", clients=4)
    assert task.layout.width == 1433 * 128 + 128 * 7 == 184_320
    assert (task.federation.clients, len(task.federation.global_test)) == (4, 1000)
