"""Selective SGD: random entries, and only those above the threshold."""

import pytest
import torch
from hypothesis import given, settings

from fedloom.channel.selectivesgd import SelectiveSGD
from fedloom.core.errors import FedloomError
from support.senders import MemorySender, send, updates


@settings(deadline=None, max_examples=60)
@given(updates())
def test_entries_above_the_threshold_arrive_exactly_and_no_others(rows):
    found = send(SelectiveSGD(0.3, threshold=1.0), rows)
    assert bool(((found == rows) | (found == 0)).all())
    assert bool((found[rows.abs() < 1] == 0).all())
    above = (rows.abs() >= 1).sum(1)
    assert torch.equal((found != 0).sum(1), above.clamp(max=SelectiveSGD(0.3).width(rows.shape[1])))


def test_among_those_above_the_threshold_the_choice_is_random_and_not_the_largest():
    row = torch.tensor([0.5, 1.0, 2.0, 100.0])
    found = send(SelectiveSGD(0.25, threshold=1.0), row.expand(3000, -1), MemorySender(range(3000)))
    assert ((found != 0).float().mean(0) - torch.tensor([0.0, 1 / 3, 1 / 3, 1 / 3])).abs().max() < 0.04


def test_an_entry_below_the_threshold_and_impossible_settings_are_refused():
    step = SelectiveSGD(0.5, threshold=1.0)
    with pytest.raises(ValueError, match="below the threshold"):
        step.decode(torch.tensor([[0.5]]), {"positions": torch.zeros(1, 1, dtype=torch.int32)}, 2)
    for impossible in ({"fraction": 0.0}, {"threshold": -1.0}, {"threshold": float("nan")}):
        with pytest.raises(FedloomError, match=r"above 0|at least 0|finite number"):
            SelectiveSGD(**impossible)
