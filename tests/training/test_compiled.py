"""The compiled execution equals the others to rounding."""

import pytest
import torch

from fedloom.core.cycle import Cycle
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from support.synthetic import Branching, cohort, decorrelation, distance, federation, mlp, train_all


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
    "chain, a loss of the batch": (
        lambda: mlp(dropout=0.3),
        LocalWork(epochs=2, batch_size=16),
        {"loss": decorrelation, "given": {"margins": torch.linspace(0, 3, 20).view(4, 5)}},
    ),
    "branching, momentum and clip": (Branching, LocalWork(epochs=2, batch_size=16, momentum=0.9, clip=1.0), {}),
}


FIRST = ("chain, sgd", "branching, momentum and clip")


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=() if name in FIRST else pytest.mark.exhaustive)
        for name, case in CASES.items()
    ],
)
def test_compiled_equals_loop_for_unequal_clients(case):
    model, work, how = case
    task = Task("t", federation([70, 33, 16, 5]), model())
    assert distance(train_all(task, "loop", work, **how), train_all(task, "compiled", work, **how)) < 1e-5


def test_several_steps_per_batch_are_refused_with_what_to_use():
    task = Task("t", federation([8]), mlp())
    some = cohort(task, "compiled", LocalWork())
    cycle = Cycle(lrs=(0.1, 0.1), parts=(0, 0), settle=lambda *_: None)
    with pytest.raises(FedloomError, match="use vectorised or loop"):
        some.train_in_cycles(some.spread(task.initial_row()), cycle)
