"""Several optimiser steps on one batch, each with a loss of its own."""

import pytest
import torch
import torch.nn.functional as F

from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.core.trainer import LossStep
from fedloom.privacy.sample_privacy import SamplePrivacy
from support.synthetic import cohort, distance, federation, mlp, staged_tasks, train_all

TASKS = staged_tasks([40, 30, 21, 7])
EXECUTIONS = ("loop", "vectorised")
WORKS = {
    "sgd": LocalWork(epochs=2, batch_size=8),
    "decay and momentum": LocalWork(epochs=2, batch_size=8, weight_decay=0.01, momentum=0.9, lr=0.05),
    "adam": LocalWork(epochs=2, batch_size=8, optimizer="adam", lr=0.01),
}


def stage_loss(net, x, y, given):  # noqa: ARG001
    """A loss of the first stage and of the outputs: without ``until`` every parameter would move."""
    outputs, maps = net.stages(x)
    return maps[0].flatten(1).square().mean(1) + F.cross_entropy(outputs, y, reduction="none"), torch.ones(len(y))


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_vectorised_equals_loop(task, work):
    steps = [LossStep(), LossStep(stage_loss, until=1), LossStep(stage_loss)]
    loop, vectorised = (train_all(task, execution, work, steps=steps) for execution in EXECUTIONS)
    assert distance(loop, vectorised) < 1e-5


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_one_step_until_the_end_is_plain_training_to_the_byte(execution, task):
    work = LocalWork(epochs=2, batch_size=8, momentum=0.5)
    assert torch.equal(train_all(task, execution, work), train_all(task, execution, work, steps=[LossStep()]))
    own, step = (
        train_all(task, execution, work, **how) for how in ({"loss": stage_loss}, {"steps": [LossStep(stage_loss)]})
    )
    assert torch.equal(own, step)


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_a_step_until_a_stage_leaves_everything_after_it_as_it_was(execution, work):
    task = TASKS["conv"]
    row = train_all(task, execution, work, steps=[LossStep(stage_loss, until=1)])[0]
    before, after = task.layout.views(task.initial_row()), task.layout.views(row)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {"0.weight", "0.bias"}


def test_a_step_until_a_stage_is_the_gradient_of_its_loss_there():
    task, work = TASKS["conv"], LocalWork(steps=1, batch_size=0, lr=0.1)
    row = train_all(task, "loop", work, ids=[0], steps=[LossStep(stage_loss, until=1)])[0]
    positions = task.federation.train[0]
    model = task.model
    x, y = task.inputs(positions), task.targets(positions)
    loss = model[:2](x).flatten(1).square().mean(1).mean() + F.cross_entropy(model(x), y)
    gradient = torch.autograd.grad(loss, model[0].weight)[0]
    moved = task.layout.views(row - task.initial_row())["0.weight"]
    assert torch.allclose(moved, -0.1 * gradient, atol=1e-6)


def test_each_step_is_made_from_where_the_one_before_it_ended():
    task, work = TASKS["mlp"], LocalWork(steps=1, batch_size=0, lr=0.1)
    both = train_all(task, "loop", work, ids=[0], steps=[LossStep(), LossStep(stage_loss)])
    first = train_all(task, "loop", work, ids=[0])
    some = cohort(task, "loop", work, [0])
    assert torch.allclose(both, some.train(first, loss=stage_loss), atol=1e-6)


def test_each_step_has_momentum_of_its_own():
    """A second loss that is always zero does not slow down the first one's momentum, nor is it moved by it."""

    def nothing(net, x, y, given):  # noqa: ARG001
        return 0 * net(x).sum(1), torch.ones(len(y))

    work = LocalWork(steps=5, batch_size=0, lr=0.05, momentum=0.9)
    for execution in EXECUTIONS:
        alone = train_all(TASKS["mlp"], execution, work)
        both = train_all(TASKS["mlp"], execution, work, steps=[LossStep(), LossStep(nothing)])
        assert distance(alone, both) < 1e-6


def test_every_optimiser_step_is_counted():
    some = cohort(TASKS["mlp"], "loop", LocalWork(steps=3, batch_size=4))
    some.train(some.spread(TASKS["mlp"].initial_row()), steps=[LossStep(), LossStep(stage_loss, until=1)])
    assert some.steps.tolist() == [6] * 4


def test_what_cannot_be_done_is_refused_in_a_sentence():
    task, work = TASKS["mlp"], LocalWork(steps=1)
    with pytest.raises(FedloomError, match="one loss, or steps with a loss each"):
        train_all(task, "loop", work, loss=stage_loss, steps=[LossStep()])
    with pytest.raises(FedloomError, match="execution 'compiled' supports one step per batch"):
        train_all(task, "compiled", work, steps=[LossStep(), LossStep()])
    with pytest.raises(FedloomError, match="names no stages"):
        train_all(Task("t", federation([8]), mlp()), "loop", work, steps=[LossStep(until=1)])
    private = cohort(task, "vectorised", work, privacy=SamplePrivacy())
    for how in ({"steps": [LossStep()]}, {"on": torch.arange(4)}, {"augment": lambda x, _: x}):
        with pytest.raises(FedloomError, match="sample_privacy"):
            private.train(private.spread(task.initial_row()), **how)
