"""A graph divided among clients: communities, anchors, and the statistics of the thesis' table 4.2."""

import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.core.errors import FedloomError
from fedloom.reproduce.published_tables import published
from fedloom.tasks.graphs.read import named_graph
from fedloom.tasks.graphs.split import client_graphs, communities, split_graph
from support.paths import DATA_FOLDER
from support.small_graphs import clubs, random_graph, whole

RANGES = {
    ("cora", 4): {"nodes": (850, 875), "anchors": (320, 350), "edges": (1570, 1600), "communities": (25.5, 26)},
    ("cora", 8): {"nodes": (445, 460), "anchors": (185, 210), "edges": (790, 815), "communities": (12.5, 13.5)},
    ("citeseer", 4): {"nodes": (900, 925), "anchors": (130, 170), "edges": (1220, 1280), "communities": (117, 118)},
    ("citeseer", 8): {"nodes": (465, 475), "anchors": (89.5, 104), "edges": (620, 651), "communities": (58.5, 59.5)},
    ("pubmed", 4): {"nodes": (6300, 6550), "anchors": (2480, 2780), "edges": (14_300, 15_400)},
}
"""What an independent check measured, per client; for CiteSeer at 8, where the thesis' own numbers lie outside of what
was measured, the span of both."""


def real(name):
    if not (DATA_FOLDER / f"{name}.npz").is_file():
        pytest.skip(f"{name}.npz is not in {DATA_FOLDER}")
    return named_graph(name, DATA_FOLDER)


def test_two_triangles_with_a_bridge_by_hand():
    graph = whole(6, [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)])
    graphs = client_graphs(graph, torch.tensor([0, 0, 0, 1, 1, 1]), 2)
    assert graphs.graph(0).nodes.tolist() == [0, 1, 2, 3]
    assert graphs.graph(1).nodes.tolist() == [2, 3, 4, 5]
    assert graphs.graph(0).edges.t().tolist() == [[0, 1], [0, 2], [1, 2], [2, 3]]
    assert [ids.tolist() for ids in graphs.anchor_ids] == [[2, 3], [2, 3]]
    assert torch.equal(graphs.graph(1).features.to_dense(), graph.features.to_dense()[2:])


def test_edges_between_two_copied_nodes_are_kept():
    graph = whole(4, [(0, 2), (1, 3), (2, 3), (0, 1)])
    graphs = client_graphs(graph, torch.tensor([0, 0, 1, 1]), 2)
    assert graphs.graph(0).edges.shape[1] == 4


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 20), st.integers(0, 40), st.integers(1, 4), st.integers(0, 99))
def test_nothing_is_lost_and_anchors_are_what_several_clients_hold(nodes, edges, clients, seed):
    graph = random_graph(nodes, edges, seed=seed)
    owner = torch.randint(clients, (nodes,), generator=torch.Generator().manual_seed(seed))
    graphs = client_graphs(graph, owner, clients)
    pieces = [graphs.graph(client) for client in range(clients)]
    holders = torch.zeros(nodes, dtype=torch.int64)
    found = set()
    for client, piece in enumerate(pieces):
        holders[piece.nodes] += 1
        ends = piece.nodes[piece.edges]
        found |= set(map(tuple, ends.t().tolist()))
        held = torch.isin(graph.edges, piece.nodes).all(0)
        assert piece.edges.shape[1] == int(held.sum())  # all edges among the nodes it holds
        assert set(torch.nonzero(owner == client).flatten().tolist()) <= set(piece.nodes.tolist())
    assert found == set(map(tuple, graph.edges.t().tolist()))
    for client, piece in enumerate(pieces):
        assert graphs.anchor_ids[client].tolist() == [n for n in piece.nodes.tolist() if holders[n] > 1]


def test_communities_are_numbered_from_the_largest_and_lone_nodes_are_their_own():
    graph = whole(7, [(4, 5), (5, 6), (4, 6), (0, 1)])
    assert communities(graph, 0).tolist() == [1, 1, 2, 3, 0, 0, 0]


def test_communities_are_dealt_in_turn_the_largest_first():
    client_graphs = split_graph(clubs(), 2)
    owners = [client_graphs.graphs.original(client) for client in range(2)]
    own = [set(piece.nodes.tolist()) for piece in owners]
    assert set(range(12)) | set(range(22, 30)) <= own[0]
    assert set(range(12, 22)) | set(range(30, 38)) <= own[1]
    assert client_graphs.sizes.communities == (2, 2)


def test_the_same_seed_finds_the_same_communities_and_they_are_found_once(monkeypatch):
    source = clubs((9, 9, 9))
    first = communities(source.graph, 5)
    monkeypatch.setitem(sys.modules, "networkx", None)  # nobody is asked again
    assert communities(clubs((9, 9, 9)).graph, 5) is first


def test_means_are_over_clients_and_the_ratio_is_of_means():
    means = split_graph(clubs((12, 10)), 2).sizes.means()
    assert means == {"communities": 1, "anchors": 4, "nodes": 13, "edges": (66 + 2 + 45 + 2 + 2) / 2, "ratio": 4 / 13}


def test_a_graph_that_names_its_clients_is_divided_by_them():
    source = clubs((6, 6), client=["b"] * 4 + ["a"] * 8)
    client_graphs = split_graph(source)
    assert client_graphs.names == ("a", "b")
    assert set(client_graphs.graphs.graph(1).nodes.tolist()) >= {0, 1, 2, 3}
    with pytest.raises(FedloomError, match="belong to 2 clients"):
        split_graph(source, 3)


@pytest.mark.parametrize(("clients", "message"), [(0, "at least one client"), (5, "4 communities .* fewer clients")])
def test_a_number_of_clients_that_cannot_be_is_refused(clients, message):
    with pytest.raises(FedloomError, match=message):
        split_graph(clubs(), clients)


@pytest.mark.parametrize(("name", "edges", "lone"), [("cora", 5278, 0), ("citeseer", 4552, 48)])
def test_the_real_graphs_have_the_edges_and_lone_nodes_that_are_known_of_them(name, edges, lone):
    source = real(name)
    assert source.graph.edges.shape[1] == edges
    assert int((torch.bincount(source.graph.edges.flatten(), minlength=len(source)) == 0).sum()) == lone


def inside(name, clients, seed=0):
    means = split_graph(real(name), clients, seed).sizes.means()
    ranges = RANGES[name, clients]
    return {key: (low, means[key], high) for key, (low, high) in ranges.items() if not low <= means[key] <= high}


@pytest.mark.parametrize(("name", "clients"), [key for key in RANGES if key[0] != "pubmed"])
def test_split_statistics_of_the_default_seed_are_inside_the_measured_ranges(name, clients):
    assert inside(name, clients) == {}


@pytest.mark.slow
def test_split_statistics_of_pubmed_are_inside_the_measured_ranges():
    assert inside("pubmed", 4) == {}


def test_printed_rows_have_the_ratio_of_their_numbers_where_nothing_is_noted():
    table = published("gala").tables["split"]
    for name, row in zip(table.rows, map(table.row, table.rows), strict=True):
        assert name in table.notes or row["ratio"] == pytest.approx(row["anchors"] / row["nodes"], abs=0.005)
