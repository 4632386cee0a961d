"""Gradients before they make a step."""

import torch

from fedloom.training.gradients import clip_


def test_clipping_bounds_each_client_on_its_own():
    gradients = [torch.tensor([[3.0, 0.0], [0.3, 0.0]]), torch.tensor([[4.0], [0.4]])]
    clip_(gradients, 1.0)
    assert torch.allclose(gradients[0], torch.tensor([[0.6, 0.0], [0.3, 0.0]]), atol=1e-5)
    assert torch.allclose(gradients[1], torch.tensor([[0.8], [0.4]]), atol=1e-5)
