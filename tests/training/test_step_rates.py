"""Learning rates that change within a round."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from fedloom.core.cohort import Cohort, RunSetting
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.training.batches import Assignment
from fedloom.training.local_trainer import LocalTrainer
from support.synthetic import Branching, distance, federation, mlp, train_all

UNEQUAL = [50, 33, 24, 7]
WORK = LocalWork(epochs=2, batch_size=8, round_schedule="linear", round_decay=0.1)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_each_client_falls_to_the_share_at_its_own_last_step(execution):
    task = Task("t", federation(UNEQUAL), mlp())
    rows = train_all(task, execution, WORK)
    for client in range(len(UNEQUAL)):
        model, assignment = mlp(), Assignment.of(client, task.federation.train[client], WORK, 3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=WORK.lr)
        theirs = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, max(assignment.steps - 1, 1))
        for positions in assignment:
            optimizer.zero_grad()
            F.cross_entropy(model(task.inputs(positions)), task.targets(positions)).backward()
            optimizer.step()
            theirs.step()
        assert float((rows[client] - task.layout.row(model)).abs().max()) < 1e-6


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "rmsprop", "adagrad"])
@pytest.mark.parametrize("model", [mlp, Branching])
def test_executions_agree_for_unequal_clients(model, optimizer):
    task, work = Task("t", federation(UNEQUAL), model()), replace(WORK, optimizer=optimizer, lr=0.01)
    assert distance(train_all(task, "loop", work), train_all(task, "vectorised", work)) < 1e-5


@pytest.mark.slow
def test_the_compiled_execution_agrees():
    task = Task("t", federation(UNEQUAL), mlp())
    assert distance(train_all(task, "loop", WORK), train_all(task, "compiled", WORK)) < 1e-5


def test_a_cohort_knows_the_sum_of_its_rates():
    task = Task("t", federation(UNEQUAL), mlp())
    for work in (WORK, replace(WORK, round_schedule="constant", round_decay=1.0)):
        cohort = Cohort(list(range(4)), LocalTrainer(task, "vectorised"), RunSetting(work, 3, 5), 1)
        cohort.train(cohort.spread(task.initial_row()))
        mean = 1.1 / 2 if work.changes_within_round else 1.0
        expected = [0.1 * (steps * mean if steps > 1 else 1.0) for steps in cohort.steps.tolist()]
        assert cohort.rates.tolist() == pytest.approx(expected)
