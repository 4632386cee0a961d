"""What the server half of a method may use: training and passes on samples that the server holds."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.server_context import ServerContext
from fedloom.training.local_trainer import LocalTrainer
from support.synthetic import distance, staged_tasks

TASKS = staged_tasks([30, 20])
WORK = LocalWork(epochs=2, batch_size=8)
COMMUNAL = torch.arange(0, 50, 3)


def context(task, execution="loop", number=1):
    return ServerContext(LocalTrainer(task, execution), WORK, 5, number, 10, range(2), lambda samples, _: samples)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_the_server_trains_alike_in_every_execution(task):
    start = task.initial_row()
    loop, vectorised = (context(task, execution).train(start, COMMUNAL) for execution in ("loop", "vectorised"))
    assert distance(loop, vectorised) < 1e-5
    assert not torch.equal(loop, start)


def test_full_batch_training_is_gradient_descent_on_the_servers_samples():
    task, work = TASKS["mlp"], LocalWork(steps=1, batch_size=0, lr=0.1)
    row = context(task).train(task.initial_row(), COMMUNAL, work=work)
    loss = F.cross_entropy(task.model(task.inputs(COMMUNAL)), task.targets(COMMUNAL))
    gradients = torch.autograd.grad(loss, list(task.model.parameters()))
    expected = task.initial_row() - 0.1 * torch.cat([g.reshape(-1) for g in gradients])
    assert torch.allclose(row, expected, atol=1e-6)


def test_a_training_depends_on_purpose_round_and_how_often_and_on_nothing_else():
    task = TASKS["mlp"]
    start, here = task.initial_row(), context(task)
    first, second, other = (here.train(start, COMMUNAL, purpose=name) for name in ("server", "server", "distil"))
    later = context(task, number=2).train(start, COMMUNAL)
    assert len({tuple(row.tolist()) for row in (first, second, other, later)}) == 4
    again = context(task)
    again.train(start, COMMUNAL, purpose="distil")
    assert torch.equal(again.train(start, COMMUNAL), first)
    assert torch.equal(again.train(start, COMMUNAL), second)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_server_is_no_straggler(number):
    task, partial = TASKS["mlp"], replace(WORK, partial=1.0)
    start = task.initial_row()
    whole = context(task, number=number).train(start, COMMUNAL)
    by_the_run = replace(context(task, number=number), work=partial).train(start, COMMUNAL)
    by_the_method = context(task, number=number).train(start, COMMUNAL, work=partial)
    assert torch.equal(by_the_run, whole)
    assert torch.equal(by_the_method, whole)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_an_own_loss_gets_places_and_what_is_given(execution):
    """One step on a teacher's outputs and the row it started from, written out."""
    task, work = TASKS["mlp"], LocalWork(steps=1, batch_size=0, lr=0.1)
    teacher = torch.randn(len(COMMUNAL), 5)
    elsewhere = task.initial_row() + 0.1

    def loss(net, x, y, given):
        apart = (net(x) - teacher[y]).square().sum(1) + (net(x) - net.at(given["there"])(x)).square().sum(1)
        return apart * given["scale"], torch.ones(len(y))

    given = {"there": elsewhere, "scale": torch.tensor(0.5)}
    row = context(task, execution).train(task.initial_row(), COMMUNAL, work=work, loss=loss, given=given)
    outputs = task.model(task.inputs(COMMUNAL))
    there = torch.func.functional_call(task.model, task.layout.views(elsewhere), (task.inputs(COMMUNAL),)).detach()
    whole = 0.5 * ((outputs - teacher).square().sum(1) + (outputs - there).square().sum(1)).mean()
    gradients = torch.autograd.grad(whole, list(task.model.parameters()))
    expected = task.initial_row() - 0.1 * torch.cat([g.reshape(-1) for g in gradients])
    assert torch.allclose(row, expected, atol=1e-5)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_collected_outputs_are_those_of_a_pass(execution):
    task = TASKS["conv"]
    here = context(task, execution)
    found = here.collect(task.initial_row(), COMMUNAL, lambda net, x, places: {"logits": net(x), "places": places})
    passed = here.forward(task.initial_row()[None], task.inputs(COMMUNAL))[0]
    assert torch.allclose(found["logits"], passed, atol=1e-6)
    assert found["places"].tolist() == list(range(len(COMMUNAL)))


def test_wrong_rows_and_samples_are_refused():
    task = TASKS["mlp"]
    with pytest.raises(FedloomError, match="one row of"):
        context(task).train(torch.zeros(3), COMMUNAL)
    with pytest.raises(FedloomError, match="no samples to train on"):
        context(task).train(task.initial_row(), COMMUNAL[:0])
