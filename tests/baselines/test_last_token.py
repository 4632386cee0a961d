"""What follows the last character, by hand; a client's own counts back off to those of all."""

from __future__ import annotations

import numpy as np
import torch

import fedloom as fl
from fedloom.baselines.last_token import LastToken
from fedloom.tasks.dataset_tasks import SHAKESPEARE


def windows() -> fl.Task:
    x = np.array([[0, 1], [2, 1], [1, 2], [0, 2]] * 10, dtype=np.int64)
    y = np.array([2, 2, 0, 0] * 10)
    return fl.task_of(fl.from_arrays(x, y, np.arange(40) % 2), model="mlp", normalise=False)


def test_the_class_after_each_last_token() -> None:
    task = windows()
    answer = LastToken().fit(task, torch.arange(40))
    assert answer.outputs(torch.arange(4)).argmax(1).tolist() == task.targets(torch.arange(4)).tolist()
    assert answer.words == "answering what most often follows the last character"


def test_a_client_answers_as_all_do_after_tokens_that_it_has_not_seen() -> None:
    task = windows()
    pooled = LastToken().fit(task, torch.arange(40))
    last = task.federation.columns["x"][:, -1]
    own = LastToken().fit(task, (last == 1).nonzero().flatten(), pooled)
    assert torch.equal(own.outputs(torch.arange(4)).argmax(1), pooled.outputs(torch.arange(4)).argmax(1))
    alone = LastToken().fit(task, (last == 1).nonzero().flatten())
    assert alone.outputs(torch.arange(4)).argmax(1).tolist() == [2, 2, 2, 2]


def test_shakespeare_is_held_against_it() -> None:
    assert [one.name for one in SHAKESPEARE.baselines] == ["last character"]
