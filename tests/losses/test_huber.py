"""Huber loss: torch's, and what its delta means."""

import pytest
import torch
import torch.nn.functional as F

from fedloom.core.errors import FedloomError
from fedloom.losses.huber import Huber
from fedloom.losses.mse import MSE


def test_it_is_torchs_per_sample_and_reports_the_squared_error():
    outputs, targets = 3 * torch.randn(40, 1), torch.randn(40)
    found = Huber(delta=0.7).losses(outputs, targets)[0]
    assert found.allclose(F.huber_loss(outputs.flatten(), targets, reduction="none", delta=0.7))
    assert torch.equal(Huber().scores(outputs, targets)[0], MSE().scores(outputs, targets)[0])


def test_with_a_large_delta_it_is_half_the_squared_error():
    outputs, targets = torch.randn(40, 1), torch.randn(40)
    assert Huber(delta=1e3).losses(outputs, targets)[0].allclose(0.5 * MSE().losses(outputs, targets)[0])


def test_delta_must_be_positive():
    with pytest.raises(FedloomError, match="delta=0"):
        Huber(delta=0)
