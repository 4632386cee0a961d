"""Graphs from files and objects: what is read, what is drawn, and what is refused in one sentence."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fedloom.core.errors import FedloomError
from fedloom.tasks.graphs.labelled_graph import graph_of, labelled_graph, with_parts
from fedloom.tasks.graphs.read import named_graph, read_graph, save_graph
from support.paths import DATA_FOLDER
from support.small_graphs import clubs

EDGES = np.array([[0, 1, 2, 1], [1, 2, 3, 0]])
X = np.array([[1.0, 1.0], [0.0, 2.0], [3.0, 0.0], [0.0, 0.0]])
Y = np.array([0, 1, 0, 1])
MASKS = {
    "train_mask": np.array([True, True, False, False]),
    "val_mask": np.array([False, False, True, False]),
    "test_mask": np.array([False, False, False, True]),
}


def npz(folder, **arrays):
    path = folder / "graph.npz"
    np.savez(path, **{"edge_index": EDGES, "x": X, "labels": Y, **MASKS} | arrays)
    return path


def same(one, other):
    assert torch.equal(one.graph.features.to_dense(), other.graph.features.to_dense())
    assert torch.equal(one.graph.edges, other.graph.edges)
    assert torch.equal(one.labels, other.labels)
    assert (one.parts is None) == (other.parts is None)
    for part in one.parts or {}:
        assert torch.equal(one.parts[part], other.parts[part])
    assert (one.classes, one.class_names, one.owners) == (other.classes, other.class_names, other.owners)


def test_an_npz_is_read_with_its_features_divided_by_their_rows_sums(tmp_path):
    graph = read_graph(npz(tmp_path))
    assert graph.graph.features.to_dense().tolist() == [[0.5, 0.5], [0, 1], [1, 0], [0, 0]]
    assert graph.graph.edges.t().tolist() == [[0, 1], [1, 2], [2, 3]]
    assert graph.labels.tolist() == [0, 1, 0, 1]
    assert graph.parts["valid"].tolist() == [False, False, True, False]
    assert (graph.classes, graph.loops, graph.repeated) == (2, 0, 0)


def test_negative_features_are_left_as_they_are_unless_asked(tmp_path):
    path = npz(tmp_path, x=X - 1)
    assert torch.equal(read_graph(path).graph.features.to_dense(), torch.tensor(X - 1).float())
    assert torch.equal(read_graph(npz(tmp_path), normalise=False).graph.features.to_dense(), torch.tensor(X).float())


def test_sparse_features_are_read_as_dense_ones_are(tmp_path):
    dense = read_graph(npz(tmp_path))
    np.savez(
        tmp_path / "sparse.npz", edge_index=EDGES, labels=Y, **MASKS,
        feat_data=[1.0, 1.0, 2.0, 3.0], feat_indices=[0, 1, 1, 0], feat_indptr=[0, 2, 3, 4, 4], feat_shape=[4, 2],
    )  # fmt: skip
    same(read_graph(tmp_path / "sparse.npz"), dense)


def test_self_loops_and_repeated_edges_are_left_out_and_counted(tmp_path):
    edges = np.array([[0, 1, 1, 2, 2, 0, 0, 0], [1, 0, 2, 2, 2, 1, 1, 3]])
    graph = read_graph(npz(tmp_path, edge_index=edges))
    assert graph.graph.edges.t().tolist() == [[0, 1], [0, 3], [1, 2]]
    assert (graph.loops, graph.repeated) == (2, 2)  # 0-1 is listed three times in one direction, once in the other


def test_saving_and_reading_gives_the_same_graph(tmp_path):
    for number, source in enumerate((clubs(), clubs(client=["b"] * 20 + ["a"] * 18))):
        save_graph(source, tmp_path / f"{number}.npz")
        same(read_graph(tmp_path / f"{number}.npz"), source)


def test_a_folder_of_two_tables_is_the_same_graph_as_arrays(tmp_path):
    nodes = [
        ("a", "cat", "train", 1, 1),
        ("b", "dog", "train", 0, 2),
        ("c", "cat", "val", 3, 0),
        ("d", "dog", "test", 0, 0),
    ]
    text = "".join(",".join(map(str, row)) + "\n" for row in nodes)
    (tmp_path / "nodes.csv").write_text("id,label,split,f,g\n" + text)
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\nc,d\nb,a\n")
    graph = read_graph(tmp_path)
    assert graph.class_names == ("cat", "dog")
    save_graph(graph, tmp_path / "saved.npz")
    same(read_graph(tmp_path / "saved.npz"), graph)
    arrays = read_graph(npz(tmp_path))
    assert torch.equal(graph.graph.edges, arrays.graph.edges)
    assert torch.equal(graph.graph.features.to_dense(), arrays.graph.features.to_dense())
    assert torch.equal(graph.labels, arrays.labels)


def test_an_empty_label_in_a_table_is_unknown_and_clients_are_named(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,client,label,f\n1,north,x,1\n2,north,,1\n3,south,y,1\n")
    (tmp_path / "edges.csv").write_text("source,target\n1,3\n")
    graph = read_graph(tmp_path)
    assert graph.labels.tolist() == [0, -1, 1]
    assert (graph.owners, graph.owner.tolist(), graph.parts) == (("north", "south"), [0, 0, 1], None)


def test_an_object_of_pytorch_geometrics_kind_is_the_same_graph(tmp_path):
    masks = {name: torch.tensor(mask) for name, mask in MASKS.items()}
    data = SimpleNamespace(x=torch.tensor(X), edge_index=torch.tensor(EDGES), y=torch.tensor(Y), **masks)
    same(graph_of(data), read_graph(npz(tmp_path)))
    data.train_mask = torch.tensor([[True, False]] * 2 + [[False, False]] * 2)
    data.val_mask = torch.tensor([[False, True]] * 3 + [[False, False]])[:, :2] & ~data.train_mask
    assert graph_of(data, mask=1).parts["valid"].tolist() == [True, True, True, False]
    with pytest.raises(FedloomError, match="splits 0 to 1"):
        graph_of(data, mask=2)
    del data.y
    with pytest.raises(FedloomError, match="has no y"):
        graph_of(data)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.where(X == 2, np.nan, X)}, "feature 1 of node 1 is not a number"),
        ({"x": np.where(X == 3, np.inf, X)}, "feature 0 of node 2 is infinite"),
        ({"x": X[0]}, "nodes × features"),
        ({"edge_index": EDGES + 1}, r"edge 2 joins 3 and 4, but the nodes are numbered 0 to 3"),
        ({"edge_index": EDGES.T}, "transpose it"),
        ({"edge_index": EDGES * 1.0}, "whole numbers"),
        ({"labels": Y[:3]}, "one label per node"),
        ({"labels": np.array([0, -1, 0, 1])}, "node 1 is in the train part but has no label"),
        ({"labels": np.full(4, -1)}, "no node has a label"),
        ({"train_mask": np.ones(4, dtype=bool)}, "is in two parts"),
        ({"train_mask": np.array([0, 1, 0, 0])}, "true or false per node"),
        ({"client": ["a"]}, "one client per node"),
    ],
)
def test_a_graph_that_cannot_be_is_refused_with_the_place(tmp_path, arrays, message):
    with pytest.raises(FedloomError, match=message):
        read_graph(npz(tmp_path, **arrays))


@pytest.mark.parametrize(
    ("leave", "arrays", "message"),
    [
        ("labels", {}, "no array 'labels' or 'y'"),
        ("test_mask", {}, "none for test"),
        ("edge_index", {}, "no array 'edge_index'"),
        ("x", {}, "no 'feat_indptr'"),
        ("x", {"feat_indptr": [0, 1], "feat_indices": [0], "feat_shape": [4, 2]}, "does not fit 4 nodes"),
        ("x", {"feat_indptr": [0, 1, 1, 1, 1], "feat_indices": [9], "feat_shape": [4, 2]}, "names feature 9 of 2"),
    ],
)
def test_an_npz_that_lacks_something_is_refused(tmp_path, leave, arrays, message):
    full = {"edge_index": EDGES, "x": X, "labels": Y, **MASKS, **arrays}
    np.savez(tmp_path / "graph.npz", **{key: value for key, value in full.items() if key != leave})
    with pytest.raises(FedloomError, match=message):
        read_graph(tmp_path / "graph.npz")


def test_pickled_arrays_are_never_loaded(tmp_path):
    np.savez(tmp_path / "bad.npz", edge_index=np.array([{}], dtype=object))
    with pytest.raises(FedloomError, match="never loads"):
        read_graph(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ("id,label,f\na,0,1\nb,1,1\n", "source,target\na,z\n", "row 1: the target 'z' is not in nodes.csv"),
        ("id,label,f\na,0,1\na,1,1\n", "source,target\n", "'a' twice"),
        ("id,label,f\na,0,\nb,1,1\n", "source,target\n", "column 'f', row 1: the cell is empty"),
        ("id,label,f\na,0,one\nb,1,1\n", "source,target\n", "'one' is not a number"),
        ("id,label\na,0\nb,1\n", "source,target\n", "no feature column"),
        ("id,label,split,f\na,0,tain,1\n", "source,target\n", "'tain' must be train"),
        ("id,f\na,1\n", "source,target\n", "no column 'label'"),
        ("id,label,f\na,0\n", "source,target\n", "2 cells where the header has 3"),
        ("id,label,f\na,0,1\n", None, "has no edges.csv"),
    ],
)
def test_tables_with_a_fault_are_refused_with_the_row(tmp_path, nodes, edges, message):
    (tmp_path / "nodes.csv").write_text(nodes)
    if edges is not None:
        (tmp_path / "edges.csv").write_text(edges)
    with pytest.raises(FedloomError, match=message):
        read_graph(tmp_path)


def test_a_missing_graph_says_where_it_was_looked_for_and_what_to_do(tmp_path):
    with pytest.raises(FedloomError, match=r"FEDLOOM_DATA.*save_graph"):
        named_graph("cora", tmp_path)
    with pytest.raises(FedloomError, match="Did you mean 'cora'"):
        named_graph("coda", tmp_path)
    with pytest.raises(FedloomError, match=r"folder with nodes\.csv"):
        read_graph(tmp_path / "graph.txt")


def test_parts_are_drawn_class_by_class_and_do_not_overlap():
    source = labelled_graph(np.zeros((2, 0), dtype=int), np.ones((100, 1)), np.repeat([0, 1, -1], [60, 30, 10]))
    drawn = with_parts(source, 0.2, 0.1, seed=3)
    counts = {part: torch.bincount(source.labels[mask], minlength=2).tolist() for part, mask in drawn.parts.items()}
    assert counts == {"test": [12, 6], "valid": [6, 3], "train": [42, 21]}
    assert int(sum(mask.long() for mask in drawn.parts.values()).max()) == 1
    few = with_parts(source, 0.2, 0.1, per_class=5, seed=3)
    assert torch.bincount(source.labels[few.parts["train"]]).tolist() == [5, 5]
    assert torch.equal(few.parts["test"], drawn.parts["test"])
    assert not torch.equal(with_parts(source, 0.2, 0.1, seed=4).parts["test"], drawn.parts["test"])


@pytest.mark.parametrize("shares", [(0.0, 0.1), (0.6, 0.4), (0.5, -0.1)])
def test_parts_without_test_or_training_nodes_are_refused(shares):
    with pytest.raises(FedloomError, match="test_share"):
        with_parts(clubs(), *shares)


@pytest.mark.parametrize(
    ("name", "nodes", "width", "classes", "labelled"),
    [("cora", 2708, 1433, 7, 140), ("citeseer", 3327, 3703, 6, 120), ("pubmed", 19_717, 500, 3, 60)],
)
def test_the_named_graphs_have_the_sizes_of_the_public_split(name, nodes, width, classes, labelled):
    if not (DATA_FOLDER / f"{name}.npz").is_file():
        pytest.skip(f"{name}.npz is not in {DATA_FOLDER}")
    graph = named_graph(name, DATA_FOLDER)
    assert (len(graph), graph.graph.features.width, graph.classes) == (nodes, width, classes)
    assert [int(graph.parts[part].sum()) for part in ("train", "valid", "test")] == [labelled, 500, 1000]
    sums = graph.graph.features.to_dense().sum(1) if name != "pubmed" else graph.graph.features @ torch.ones(width, 1)
    assert torch.allclose(sums[sums > 0], torch.ones(()))
    assert int((graph.labels < 0).sum()) == (15 if name == "citeseer" else 0)


def test_the_seven_countries_are_clients_without_edges_between_them():
    if not (DATA_FOLDER / "twitch_countries.npz").is_file():
        pytest.skip(f"twitch_countries.npz is not in {DATA_FOLDER}")
    graph = named_graph("twitch", DATA_FOLDER)
    assert graph.owners == ("DE", "ENGB", "ES", "FR", "PTBR", "RU", "ZHTW")
    assert torch.equal(graph.owner[graph.graph.edges[0]], graph.owner[graph.graph.edges[1]])
    assert len(graph) == 9498 + 7126 + 4648 + 6549 + 1912 + 4385 + 2772
