"""FedDecorr: FedAvg without its penalty, the penalty by numpy, its gradient by autograd, and less correlation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedloom.conformance.run_method import run_method
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.methods.fedavg import FedAvg
from fedloom.registry.user_classes import user_callable
from support.example_methods import FOLDER, MOST_LINES, code_lines, example, failed_claims
from support.synthetic import cohort, mlp_features, small_task

correlation = user_callable(f"{FOLDER / 'feddecorr.py'}:correlation", "function")
WORK = {"epochs": 2, "batch_size": 16, "lr": 0.1}


def test_the_matrix_is_numpys_and_padding_does_not_change_it():
    z = torch.randn(9, 4, generator=torch.Generator().manual_seed(0)) @ torch.tensor([[1.0, 2, 0, 0]] * 4).add(
        torch.eye(4)
    )
    found = correlation(z, torch.ones(9))
    assert np.allclose(found.numpy(), np.corrcoef(z.numpy().T), atol=1e-5)
    padded = correlation(torch.cat([z, z[:1].expand(3, -1)]), torch.tensor([1.0] * 9 + [0.0] * 3))
    assert torch.allclose(found, padded, atol=1e-6)
    assert float(correlation(z[:1], torch.ones(1)).abs().max()) == 0  # one sample has no correlation, and no NaN


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_without_its_penalty_it_is_fedavg(execution):
    none = example("feddecorr", "FedDecorr", beta=0)
    rows = [run_method(small_task(), method, 2, WORK, execution=execution).row for method in (none, FedAvg())]
    assert torch.allclose(*rows, atol=1e-6)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_step_is_autograds(execution):
    task, beta = small_task(), 0.7
    clients = cohort(task, execution, LocalWork(steps=1, batch_size=0, lr=0.5))
    method = example("feddecorr", "FedDecorr", beta=beta)
    for client, row in enumerate(method.client_update(clients, Message({"row": task.initial_row()})).tensors["row"]):
        positions = task.federation.train[client]
        x, y, leaf = task.inputs(positions), task.targets(positions), task.initial_row().requires_grad_()
        z = mlp_features(task, leaf, x)
        outputs = F.linear(z, task.layout.views(leaf)["4.weight"], task.layout.views(leaf)["4.bias"])
        scaled = (z - z.mean(0)) / (z.var(0, correction=0) + 1e-8).sqrt()
        penalty = torch.linalg.matrix_norm(scaled.T @ scaled / len(z)).square() / z.shape[1] ** 2
        (gradient,) = torch.autograd.grad(F.cross_entropy(outputs, y) + beta * penalty, leaf)
        assert torch.allclose(row, (leaf - 0.5 * gradient).detach(), atol=1e-5)


def test_features_are_less_correlated_than_with_fedavg():
    task = small_task()
    found = []
    for method in (FedAvg(), example("feddecorr", "FedDecorr", beta=2.0)):
        row = run_method(task, method, 15, WORK).row
        z = mlp_features(task, row, task.inputs(torch.arange(112)))
        found.append(float(correlation(z, torch.ones(112)).square().mean()))
    assert found[1] < 0.9 * found[0]


@pytest.mark.slow
def test_conform_holds_and_it_is_short():
    assert failed_claims(example("feddecorr", "FedDecorr")) == []
    assert code_lines("feddecorr") <= MOST_LINES
