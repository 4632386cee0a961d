"""FedRep: the head first, then the body alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from support.checkpoints import WORK, final, same
from support.synthetic import SIZES, cohort, small_task


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_fedrep_trains_the_head_first_and_then_the_body_alone(execution):
    task, work = small_task(), LocalWork(**WORK)
    some = cohort(task, execution, work)
    rows = fl.FedRep(head_epochs=3).train(some, some.spread(task.initial_row()))
    alone = cohort(task, execution, work)
    headed = alone.train(alone.spread(task.initial_row()), part="head", work=replace(work, epochs=3))
    bodied = alone.train(headed, part="body")
    assert same(rows, bodied)
    assert same(task.layout.take(rows, "head"), task.layout.take(headed, "head"))
    steps = torch.tensor([work.steps_for(size) for size in SIZES])
    assert torch.equal(some.steps, steps // 2 * 3 + steps)  # three epochs of the head, two of the body


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_fedrep_that_never_trains_its_heads_is_fedbabu_to_the_byte(tmp_path, execution):
    settings = {"execution": execution, "selection": {"fraction": 0.5}}
    rep = final(tmp_path / "rep", fl.FedRep(head_epochs=0), small_task(), **settings)
    babu = final(tmp_path / "babu", "fedbabu", small_task(), **settings)
    assert same(rep.server["row"], babu.server["row"])


def test_a_negative_number_of_epochs_is_refused():
    with pytest.raises(FedloomError, match="head_epochs=-1: it must be at least 0"):
        fl.FedRep(head_epochs=-1)
