"""What is guessed of clients' data: confidences by hand, which weights count, and how many components stay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.aggregation.mean import weights
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.objective import SquaredError
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task
from fedloom.methods.fedseq.approximators import check_approximator, confidences, linear_columns, principal_components
from fedloom.training.local_trainer import LocalTrainer
from support.synthetic import Branching, federation, mlp


def site_of(task: Task, execution: str = "vectorised") -> ServerContext:
    clients = list(range(task.federation.clients))
    return ServerContext(
        LocalTrainer(task, execution), LocalWork(), 0, 0, 1, clients, lambda *of: weights("samples", *of)
    )


def with_public(sizes: list[int], communal: list[int], model: nn.Module | None = None) -> Task:
    return Task("t", replace(federation(sizes), communal=torch.tensor(communal)), model or mlp())


# -- confidences


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_confidence_is_the_mean_probability_of_a_class_on_samples_of_that_class(execution):
    task = with_public([30, 30], list(range(40)))
    rows = task.initial_row() + 0.3 * torch.randn(20, task.layout.width, generator=torch.Generator().manual_seed(1))
    found = confidences(site_of(task, execution), rows, "sum")
    x, y = task.inputs(torch.arange(40)), task.targets(torch.arange(40))
    model = mlp()
    for place in (0, 7, 19):
        task.layout.fill(model, rows[place])
        with torch.no_grad():
            probabilities = model.eval()(x).softmax(-1)
        expected = torch.stack([probabilities[y == label, label].mean() for label in range(5)])
        assert found[place].numpy() == pytest.approx((expected / expected.sum()).numpy(), abs=1e-6)


def test_more_samples_than_fit_at_once_count_alike(monkeypatch):
    task = with_public([60], list(range(50)))
    rows = task.initial_row() + torch.randn(3, task.layout.width, generator=torch.Generator().manual_seed(1))
    whole = confidences(site_of(task), rows, "sum")
    monkeypatch.setattr("fedloom.methods.fedseq.approximators.SAMPLES_AT_ONCE", 7)
    monkeypatch.setattr("fedloom.methods.fedseq.approximators.ROWS_AT_ONCE", 2)
    assert torch.allclose(confidences(site_of(task), rows, "sum"), whole, atol=1e-7)


def test_a_class_that_the_communal_set_lacks_has_no_place():
    task = with_public([60], list(range(50)))
    y = task.federation.columns["y"]
    communal = torch.arange(50)[y[:50] != 2]
    task = replace(task, federation=replace(task.federation, communal=communal))
    found = confidences(site_of(task), task.initial_row().expand(2, -1), "sum")
    assert found.shape == (2, 4)
    assert found.sum(1).numpy() == pytest.approx(1)


def test_softmax_flattens_as_the_specification_says():
    """A model that is certain of one class of ten: (1, 0, ..., 0) becomes 0.232 and nine times 0.085."""

    class Certain(nn.Module):
        """Answers class 0 whatever it sees."""

        def __init__(self) -> None:
            super().__init__()
            self.answer = nn.Linear(20, 10)
            nn.init.zeros_(self.answer.weight)
            self.answer.bias.data = torch.tensor([100.0] + [0.0] * 9)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.answer(x)

    held = federation([200], classes=10)
    task = Task("t", replace(held, communal=torch.arange(150)), Certain())
    row = task.initial_row()[None]
    assert confidences(site_of(task, "loop"), row, "sum")[0].numpy() == pytest.approx([1] + [0] * 9, abs=1e-6)
    flat = confidences(site_of(task, "loop"), row, "softmax")[0].numpy()
    assert flat == pytest.approx([0.232] + [0.085] * 9, abs=5e-4)


def test_clients_of_one_class_are_told_by_their_confidence():
    """What the grouping relies on, on real data: a model trained on one class alone is sure of that class."""
    task = fl.task("digits", clients=10, partition=fl.dirichlet(0), communal_per_class=5, seed=1)
    from support.synthetic import cohort

    some = cohort(task, "vectorised", LocalWork(epochs=10, lr=0.1, batch_size=32))
    rows = some.train(some.spread(task.initial_row()))
    found = confidences(site_of(task), rows, "sum")
    mine = torch.tensor(task.federation.counts()).argmax(1)
    assert torch.equal(found.argmax(1), mine)


# -- weights of linear layers


def test_weights_of_linear_layers_count_and_biases_do_not():
    task = with_public([20], [])
    columns = linear_columns(task)
    assert len(columns) == 20 * 16 + 16 * 5
    row = task.layout.row(task.model)[columns]
    linear = [layer.weight.flatten() for layer in task.model if isinstance(layer, nn.Linear)]
    assert torch.equal(row, torch.cat(linear))


def test_convolutions_and_embeddings_do_not_count():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 3), nn.LayerNorm(3))
    assert len(linear_columns(Task("t", federation([20]), model))) == 24
    assert len(linear_columns(Task("t", federation([20]), Branching()))) == 2 * 160 + 40
    assert len(linear_columns(Task("t", federation([20]), nn.Linear(20, 5)))) == 100


def test_components_keep_nine_tenths_of_the_variance_and_no_more_than_needed():
    """Axes with variances 80, 15, 4 and 1: the first alone keeps 80 %, the first two 95 %."""
    signs = np.array([[a, b, c, d] for a in (1, -1) for b in (1, -1) for c in (1, -1) for d in (1, -1)])
    points = torch.tensor(signs * np.sqrt([4, 80, 1, 15]) + 7).float()
    reduced = principal_components(points)
    assert reduced.shape == (16, 2)
    assert np.abs(reduced) == pytest.approx(np.tile(np.sqrt([80, 15]), (16, 1)), rel=1e-4)


def test_one_client_alone_has_a_vector():
    assert principal_components(torch.randn(1, 5)).shape == (1, 1)


# -- refusals


def test_an_approximator_needs_something_to_look_at():
    with pytest.raises(FedloomError, match=r"set task\.communal_per_class, for instance to 10"):
        check_approximator("conf", with_public([20], []))
    model = nn.Sequential(nn.Flatten(), nn.LayerNorm(20))
    with pytest.raises(FedloomError, match="compares linear layers, but Sequential has none"):
        check_approximator("clf", with_public([20], [], model))
    held = federation([20])
    values = replace(held, columns={**held.columns, "y": torch.rand(20)}, communal=torch.arange(5))
    with pytest.raises(FedloomError, match="confidences in classes, but this task has none"):
        check_approximator("conf", Task("t", values, mlp(), objective=SquaredError()))
    check_approximator("conf", with_public([20], [1, 2]))
    check_approximator("clf", with_public([20], []))
