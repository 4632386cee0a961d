"""The compiled execution equals the others to rounding."""

import pytest
import torch

from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from support.synthetic import Branching, distance, federation, mlp, train_all


def frozen_stem():
    model = mlp()
    model[1].requires_grad_(False)
    return model


CASES = {
    "chain, sgd": (lambda: mlp(dropout=0.3), LocalWork(epochs=2, batch_size=16), {}),
    "chain, decay and pull": (
        lambda: mlp(),
        LocalWork(epochs=2, batch_size=16, weight_decay=0.01),
        {"pull": lambda rows, received: 0.1 * (rows - received)},
    ),
    "chain, adam, head only": (lambda: mlp(), LocalWork(epochs=2, optimizer="adam", lr=0.01), {"part": "head"}),
    "chain with a frozen layer, sgd": (frozen_stem, LocalWork(epochs=2, batch_size=16), {}),
    "branching, momentum and clip": (Branching, LocalWork(epochs=2, batch_size=16, momentum=0.9, clip=1.0), {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_compiled_equals_loop_for_unequal_clients(case):
    model, work, how = case
    task = Task("t", federation([70, 33, 16, 5]), model())
    assert distance(train_all(task, "loop", work, **how), train_all(task, "compiled", work, **how)) < 1e-5


def test_a_loss_of_a_methods_own_is_refused_with_what_to_use():
    task = Task("t", federation([8]), mlp())
    with pytest.raises(FedloomError, match="use vectorised or loop"):
        train_all(task, "compiled", LocalWork(), loss=lambda net, x, y, _: (net(x).sum(-1), torch.ones(len(y))))
