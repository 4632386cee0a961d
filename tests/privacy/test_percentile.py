"""Percentile privacy by hand: zeros below, a bound above, steps in between."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.core.errors import FedloomError
from fedloom.privacy.percentile import Percentile
from support.senders import MemorySender, send, updates


def test_small_entries_are_zero_and_large_ones_clipped_per_step():
    row = torch.tensor([[1.0, -2.0, 3.0, -40.0, 0.5]])
    assert send(Percentile(50, gamma=1.0), row, MemorySender([0], steps=2)).tolist() == [[0.0, -2.0, 2.0, -2.0, 0.0]]


@settings(deadline=None, max_examples=60)
@given(updates(), st.sampled_from([0, 10, 40, 70, 100]), st.integers(1, 5))
def test_it_is_the_documents_rule(rows, percentile, steps):
    found = send(Percentile(percentile, gamma=0.01), rows, MemorySender(range(len(rows)), steps=steps))
    for row, mine in zip((rows / steps).numpy(), found.numpy(), strict=True):
        cutoff = np.percentile(np.abs(row), percentile)
        expected = np.where(np.abs(row) < cutoff, 0, np.clip(row, -0.01, 0.01)) * steps
        assert np.allclose(mine, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("settings", [{"percentile": 101}, {"percentile": -1}, {"gamma": 0.0}, {"gamma": float("inf")}])
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(FedloomError, match=r"at least 0 and at most 100|above 0|finite number"):
        Percentile(**settings)
