"""FedBABU: a head that is never trained."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.core.local_work import LocalWork
from support.checkpoints import WORK, same
from support.synthetic import cohort, small_task


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_fedbabu_never_moves_a_head(execution):
    task = small_task()
    some = cohort(task, execution, LocalWork(**WORK))
    rows = fl.FedBABU().train(some, some.spread(task.initial_row()))
    start = task.initial_row()
    assert all(same(task.layout.take(row, "head"), task.layout.take(start, "head")) for row in rows)
    assert all(not same(task.layout.take(row, "body"), task.layout.take(start, "body")) for row in rows)
