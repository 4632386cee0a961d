"""FedLC: margins by its formula, FedAvg without them, and the gradient of the calibrated loss."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from fedloom.conformance.quadratics import Quadratics
from fedloom.conformance.run_method import run_method
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.methods.fedavg import FedAvg
from support.example_methods import MOST_LINES, code_lines, example, failed_claims
from support.synthetic import cohort, mlp_features, small_task

WHOLE = {"steps": 1, "batch_size": 0, "lr": 0.5}


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_without_its_margins_it_is_fedavg(execution):
    work = {"epochs": 2, "batch_size": 16, "lr": 0.1}
    none = example("fedlc", "FedLC", tau=0)
    rows = [run_method(small_task(), method, 2, work, execution=execution).row for method in (none, FedAvg())]
    assert torch.allclose(*rows, atol=1e-6)
    calibrated = run_method(small_task(), example("fedlc", "FedLC"), 2, work, execution=execution).row
    assert not torch.allclose(rows[0], calibrated, atol=1e-3)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_step_is_the_gradient_of_the_papers_loss(execution):
    """The loss in the paper's form, with pairwise margins: log of 1 + sum over i != y of exp(f_i - f_y + D(y, i))."""
    task, tau = small_task(), 2.0
    clients = cohort(task, execution, LocalWork(**WHOLE))
    found = (
        example("fedlc", "FedLC", tau=tau).client_update(clients, Message({"row": task.initial_row()})).tensors["row"]
    )
    for client, row in enumerate(found):
        positions = task.federation.train[client]
        x, y, leaf = task.inputs(positions), task.targets(positions), task.initial_row().requires_grad_()
        outputs = F.linear(
            mlp_features(task, leaf, x), task.layout.views(leaf)["4.weight"], task.layout.views(leaf)["4.bias"]
        )
        rarity = torch.bincount(y, minlength=5).float() ** -0.25  # every client has every class here
        pairs = outputs - outputs.gather(1, y[:, None]) + tau * (rarity[y][:, None] - rarity)
        (gradient,) = torch.autograd.grad(pairs.exp().sum(1).log().mean(), leaf)
        assert torch.allclose(row, (leaf - 0.5 * gradient).detach(), atol=1e-5)


def test_a_class_that_a_client_lacks_is_left_out_of_its_softmax():
    task = small_task()
    y = task.federation.columns["y"]
    y[y == 3] = 2
    clients = cohort(task, "vectorised", LocalWork(**WHOLE))
    found = example("fedlc", "FedLC").client_update(clients, Message({"row": task.initial_row()})).tensors["row"]
    bias = task.layout.views(found)["4.bias"] - task.layout.views(task.initial_row())["4.bias"]
    assert torch.equal(bias[:, 3], torch.zeros(4))  # no gradient for the class that nobody has
    assert bool((bias[[0, 2, 3]][:, [0, 1, 2, 4]] != 0).all())
    assert (bias[1, 1], cohort(task, "loop", LocalWork()).classes()[1, 1]) == (0, 0)  # and client 1 has no class 1


def test_a_task_without_classes_is_refused():
    with pytest.raises(FedloomError, match="no class per sample"):
        run_method(Quadratics.random().task(), example("fedlc", "FedLC"), 1, WHOLE)


@pytest.mark.slow
def test_conform_holds_and_it_is_short():
    assert failed_claims(example("fedlc", "FedLC")) == []
    assert code_lines("fedlc") <= MOST_LINES
