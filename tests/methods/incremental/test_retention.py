"""The contrastive loss of equation 7.5 by hand, on three samples."""

from __future__ import annotations

import math

import pytest
import torch

from fedloom.methods.incremental.retention import retention


def test_three_samples_by_hand():
    """Cosines with the old and the new anchor: (1, 0), (0, 1) and (1/sqrt 2, 1/sqrt 2)."""
    z = torch.tensor([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    old, new = torch.tensor([[[1.0, 0.0]]] * 3), torch.tensor([[0.0, 1.0]] * 3)
    found = retention(z, old, torch.ones(3, 1), new, tau=0.5)
    e2 = math.e**2
    assert found.tolist() == pytest.approx([-math.log(e2 / (e2 + 1)), -math.log(1 / (1 + e2)), math.log(2)])


def test_the_earlier_task_is_the_positive():
    """The loss falls where features come nearer to the old anchor, and further from the new one."""
    z = torch.tensor([[1.0, 1.0]], requires_grad=True)
    retention(z, torch.tensor([[[1.0, 0.0]]]), torch.ones(1, 1), torch.tensor([[0.0, 1.0]]), 0.5).sum().backward()
    assert z.grad is not None
    assert z.grad[0, 0] < 0 < z.grad[0, 1]


def test_losses_of_the_buffer_are_added_and_unknown_anchors_do_not_count():
    z, new = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[0.0, 1.0]] * 2)
    old = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]])
    found = retention(z, old, torch.tensor([[1.0, 1.0], [0.0, 0.0]]), new, 1.0)
    assert found.tolist() == pytest.approx([math.log(1 + 1 / math.e) + math.log(2), 0.0])
