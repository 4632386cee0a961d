"""Gradient accumulation: several small batches make the step of a large one."""

from dataclasses import replace

import pytest
import torch

from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.training.accumulation import batches_of_step
from fedloom.training.execution import decide
from support.synthetic import Branching, decorrelation, distance, federation, mlp, train_all

UNEQUAL = [50, 33, 24, 7]
WORK = LocalWork(epochs=3, batch_size=8, accumulate=3, weight_decay=0.01, clip=1.0)


def undropped():
    """A model that is vectorised by vmap, and drops no units."""
    model = Branching()
    model.drop.p = 0.0
    return model


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("model", [mlp, undropped])
def test_it_is_one_large_batch(model, optimizer, execution):
    task, work = Task("t", federation(UNEQUAL), model()), replace(WORK, optimizer=optimizer, lr=0.01)
    small = train_all(task, execution, work)
    large = train_all(task, execution, replace(work, batch_size=24, accumulate=1))
    assert distance(small, large) < 1e-5
    assert float((small - task.initial_row()).norm()) > 0.01


def test_executions_agree_where_units_are_dropped():
    task = Task("t", federation(UNEQUAL), mlp(dropout=0.3))
    assert distance(train_all(task, "loop", WORK), train_all(task, "vectorised", WORK)) < 1e-5


def test_every_batch_of_a_step_drops_other_units():
    keys = [key for *_, key in batches_of_step((torch.zeros(9, 2), torch.zeros(9), None, torch.tensor(5)), 4, axis=0)]
    assert len({int(key) for key in keys}) == 3


def test_executions_agree_on_a_loss_of_the_methods_own():
    task, margins = Task("t", federation(UNEQUAL), mlp()), torch.randn(4, 5)
    rows = [train_all(task, e, WORK, loss=decorrelation, given={"margins": margins}) for e in ("loop", "vectorised")]
    assert distance(*rows) < 1e-5


def test_the_compiled_execution_refuses_it():
    with pytest.raises(FedloomError, match="use execution vectorised or loop"):
        decide(Task("t", federation([8]), mlp()), "compiled", WORK)
