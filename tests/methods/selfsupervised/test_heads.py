"""Heads behind features: their shapes, their part of the row, and the same weights in every process."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.methods.selfsupervised.heads import with_predictor, with_projection
from support.synthetic import federation, small_task


def test_a_projection_head_is_simclrs():
    head = with_projection("fedsimclr", small_task(), 12).model.projection
    assert [type(layer).__name__ for layer in head] == ["Linear", "ReLU", "Linear"]
    assert [tuple(layer.weight.shape) for layer in head if isinstance(layer, nn.Linear)] == [(16, 16), (12, 16)]


def test_a_predictor_has_a_bottleneck_of_a_quarter():
    task = with_predictor("fedsimsiam", small_task(), 12)
    layers = [layer for layer in task.model.predictor if isinstance(layer, nn.Linear)]
    assert [tuple(layer.weight.shape) for layer in layers] == [(3, 12), (12, 3)]
    assert set(task.layout.parts) == {"projection", "predictor", "body", "head"}


def test_heads_draw_the_same_weights_again_and_leave_the_global_generator_alone():
    before = torch.get_rng_state()
    one, two = (with_projection("fedsimclr", small_task(), 12).initial_row() for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(before, torch.get_rng_state())


def test_models_and_widths_that_have_no_projection_are_refused_with_a_sentence():
    with pytest.raises(FedloomError, match="projection=0: it must be at least 1"):
        with_projection("fedsimclr", small_task(), 0)
    flat = Task("t", federation([9]), nn.Sequential(nn.Flatten(), nn.Linear(20, 5)))
    with pytest.raises(FedloomError, match=r"fedsimclr uses features, .* but Sequential is all head"):
        with_projection("fedsimclr", flat, 4)
