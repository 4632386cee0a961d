"""What several methods require of a model or of local work is refused before any work."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from support.synthetic import SIZES, federation, small_task


class WithoutFeatures(nn.Module):
    """A model that does not return what its head sees."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(20, 4), nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


@pytest.mark.parametrize("name", ["moon", "fedproto"])
def test_models_without_features_are_refused_with_a_sentence(name):
    with pytest.raises(FedloomError, match=f"{name} uses features, .* WithoutFeatures does not return them: give it a"):
        fl.run(Task("t", federation(SIZES), WithoutFeatures()), name, rounds=1)
    flat = nn.Sequential(nn.Flatten(), nn.Linear(20, 5))
    with pytest.raises(FedloomError, match=f"{name} uses features, .* Sequential is all head: use a"):
        fl.run(Task("t", federation(SIZES), flat), name, rounds=1)


@pytest.mark.parametrize("name", ["perfedavg", "pfedme"])
@pytest.mark.parametrize("local", [{"momentum": 0.9}, {"optimizer": "adam", "lr": 0.001}], ids=["momentum", "adam"])
def test_optimisers_that_are_no_plain_steps_are_refused_before_any_work(name, local):
    with pytest.raises(FedloomError, match=f"{name}'s local step needs plain gradient steps: use local.optimizer"):
        fl.run(small_task(), name, rounds=1, local=local)
