"""The GCN: by hand on three nodes, whatever the order of nodes, and on the real citation graphs."""

import pytest
import torch
import torch.nn.functional as F

from fedloom.core.errors import FedloomError
from fedloom.models.gcn import GCN
from fedloom.models.graph import Graph, Graphs
from fedloom.models.sparse import Sparse
from fedloom.tasks.graphs.labelled_graph import LabelledGraph
from fedloom.tasks.graphs.read import named_graph
from fedloom.tasks.graphs.split import split_graph
from fedloom.training.functional_network import FunctionalNetwork
from fedloom.training.keyed_dropout import KeyedDropout, with_keyed_dropout
from support.paths import DATA_FOLDER
from support.small_graphs import clubs, random_graph, whole


def alone(graph, classes=2, **options):
    torch.manual_seed(0)
    return GCN(Graphs([graph], graph), graph.features.width, classes, **options)


def overlapping_gcn():
    torch.manual_seed(0)
    graphs = split_graph(clubs(), 3).graphs
    return GCN(graphs, graphs.features, 3, hidden=5)


def test_three_nodes_in_a_row_by_hand():
    path = whole(3, [(0, 1), (1, 2)])
    graph = Graph(path.nodes, path.edges, Sparse.from_dense(torch.tensor([[6.0], [0.0], [-6.0]])))
    model = alone(graph, classes=2, hidden=2, dropout=0.0)
    with torch.no_grad():
        model.body.weight.copy_(torch.tensor([[1.0, -1.0]]))
        model.head.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    # Â X = (3, 0, -3), so the hidden layer is (3, 0), (0, 0), (0, 3); 1/sqrt(6) leads from an end to the middle
    root = 6**-0.5
    expected = torch.tensor([[1.5, 0.0], [3 * root, 6 * root], [0.0, 3.0]])
    assert torch.allclose(model.embed(0), expected, atol=1e-6)
    assert torch.allclose(model(torch.tensor([2, 0])), expected[[2, 0]], atol=1e-6)


def test_the_formula_with_dense_matrices_and_its_gradient():
    graph = random_graph(12, 20, width=6)
    model = alone(graph, classes=4, hidden=5)
    model.eval()
    dense, x = graph.adjacency.to_dense(), graph.features.to_dense()
    expected = dense @ F.relu(dense @ x @ model.body.weight) @ model.head.weight
    assert torch.allclose(model.embed(0), expected, atol=1e-6)
    weights = torch.randn(12, 4)
    mine = torch.autograd.grad((model.embed(0) * weights).sum(), list(model.parameters()))
    theirs = torch.autograd.grad((expected * weights).sum(), list(model.parameters()))
    for one, other in zip(mine, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_the_order_of_nodes_changes_nothing():
    graph = random_graph(15, 30, width=4)
    order = torch.randperm(15)
    place = torch.argsort(order)
    turned = Graph(order, place[graph.edges], graph.features.pick(order))
    one, other = alone(graph), alone(turned)
    one.eval()
    other.eval()
    assert torch.allclose(one.embed(0)[order], other.embed(0), atol=1e-6)


def test_a_batch_gets_the_rows_of_its_own_graph_in_its_own_order():
    model = overlapping_gcn().eval()
    offsets = model.graphs.offsets.tolist()
    x = torch.tensor([offsets[1] + 3, offsets[1], offsets[1] + 3])
    assert torch.allclose(model(x), model.embed(1)[[3, 0, 3]], atol=1e-6)
    mixed = torch.tensor([offsets[2] + 1, offsets[0] + 4, offsets[3] + 2, offsets[0]])
    expected = torch.stack([model.embed(2)[1], model.embed(0)[4], model.embed(3)[2], model.embed(0)[0]])
    assert torch.allclose(model(mixed), expected, atol=1e-6)
    assert model(torch.zeros(0, dtype=torch.int64)).shape == (0, 3)


def test_the_gradient_of_few_nodes_is_the_one_through_the_whole_graph():
    model = overlapping_gcn().eval()
    x = model.graphs.positions(0)[:2]
    mine = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    theirs = torch.autograd.grad(model.embed(0)[:2].square().sum(), list(model.parameters()))
    for one, other in zip(mine, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_the_head_of_the_features_is_the_output():
    model = overlapping_gcn().eval()
    x = model.graphs.positions(1)
    assert torch.allclose(model.features(x) @ model.head.weight, model(x), atol=1e-6)


def test_other_weights_go_through_the_same_graphs():
    model = overlapping_gcn().eval()
    x = model.graphs.positions(0)
    tensors = {name: 2 * tensor for name, tensor in model.named_parameters()}
    twice = FunctionalNetwork(model, tensors, torch.ones(len(x)))
    assert torch.allclose(twice(x), 4 * model(x), atol=1e-5)  # ReLU of twice is twice
    assert torch.allclose(twice.features(x), 2 * model.features(x), atol=1e-5)


def test_added_edges_are_convolved_over():
    model = overlapping_gcn().eval()
    before = model.embed(0).detach()
    model.graphs.augment(0, torch.tensor([[1], [len(model.graphs.graph(0)) - 1]]))
    assert not torch.allclose(model.embed(0), before)
    model.graphs.augment(0, torch.zeros(2, 0, dtype=torch.int64))
    assert torch.equal(model.embed(0), before)


def test_dropout_is_keyed_and_off_in_evaluation():
    model = with_keyed_dropout(overlapping_gcn())
    assert [type(layer) for layer in model.children()].count(KeyedDropout) == 1
    x = model.graphs.positions(0)

    def output_with_key(key):
        model.drop.noise_key, model.drop.turn = torch.tensor(key), 0
        return model(x).detach()

    model.train()
    assert torch.equal(output_with_key(1), output_with_key(1))
    assert not torch.equal(output_with_key(1), output_with_key(2))
    model.eval()
    assert torch.equal(output_with_key(1), output_with_key(2))


def test_dropout_falls_on_features_and_on_hidden_units_at_its_rate():
    nodes, width, p = 200, 50, 0.4
    lonely = Graph(torch.arange(nodes), torch.zeros(2, 0, dtype=torch.int64), Sparse.from_dense(torch.ones(nodes, 1)))
    model = alone(lonely, hidden=width, dropout=p).train()
    with torch.no_grad():
        model.body.weight.fill_(1.0)
    hidden = model._hidden(lonely.all).detach()
    kept = (hidden != 0).float()
    assert torch.allclose(hidden[hidden != 0], torch.tensor(1 / (1 - p) ** 2))
    assert float((kept.sum(1) > 0).float().mean()) == pytest.approx(1 - p, abs=0.12)  # a dropped feature empties a row
    assert float(kept[kept.sum(1) > 0].mean()) == pytest.approx(1 - p, abs=0.05)


def test_parts_and_initial_values_are_those_of_the_paper():
    model = overlapping_gcn()
    assert dict(model.named_parameters()).keys() == {"body.weight", "head.weight"}
    bound = (6 / (3 + 5)) ** 0.5
    assert 0.5 * bound < float(model.body.weight.detach().abs().max()) <= bound


@pytest.mark.parametrize("options", [{"hidden": 0}, {"dropout": 1.0}, {"dropout": -0.1}])
def test_settings_that_cannot_be_are_refused(options):
    with pytest.raises(FedloomError, match=next(iter(options))):
        alone(random_graph(4, 4), **options)
    with pytest.raises(FedloomError, match="features=9"):
        GCN(Graphs([], random_graph(4, 4)), 9, 2)


def train_on_whole_graph(source: LabelledGraph, seed: int) -> float:
    """Accuracy on the test nodes after 200 epochs of Adam on the whole graph, dropout 0.3, weight decay 5e-4."""
    torch.manual_seed(seed)
    model = GCN(Graphs([], source.graph), source.graph.features.width, source.classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    train, test = (source.parts[part].nonzero().flatten() for part in ("train", "test"))
    model.train()
    for _ in range(200):
        optimizer.zero_grad()
        F.cross_entropy(model(train), source.labels[train]).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return float((model(test).argmax(1) == source.labels[test]).float().mean())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "low", "high"), [("cora", 0.79, 0.82), ("citeseer", 0.68, 0.72), ("pubmed", 0.78, 0.80)]
)
def test_a_gcn_on_the_whole_graph_reaches_the_known_accuracy(name, low, high):
    if not (DATA_FOLDER / f"{name}.npz").is_file():
        pytest.skip(f"{name}.npz is not in {DATA_FOLDER}")
    source = named_graph(name, DATA_FOLDER)
    scores = [train_on_whole_graph(source, seed) for seed in range(3)]
    assert low <= sum(scores) / 3 <= high, scores
