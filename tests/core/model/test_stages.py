"""The stages of a model: their outputs, and the parameters up to each of them."""

import pytest
import torch
from torch import nn

from fedloom.core.errors import FedloomError
from fedloom.core.model.stages import parameters_until, run_with_stages, stage_names
from support.synthetic import small_conv


def test_stages_are_the_outputs_of_the_modules_that_the_model_names():
    model, x = small_conv(), torch.randn(3, 1, 8, 8)
    outputs, (first, second) = run_with_stages(model, x)
    assert torch.equal(outputs, model(x))
    assert torch.equal(first, model[:2](x))
    assert torch.equal(second, model[:4](x))
    assert not any(layer._forward_hooks for layer in model)


def test_the_parameters_until_a_stage_are_those_that_its_output_depends_on():
    model, x = small_conv(), torch.randn(1, 1, 8, 8)
    assert parameters_until(model, x, 1) == {"0.weight", "0.bias"}
    assert parameters_until(model, x, 2) == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_the_order_of_registration_does_not_matter():
    class Backwards(nn.Module):
        stages = ("body",)

        def __init__(self):
            super().__init__()
            self.head, self.body = nn.Linear(4, 2), nn.Linear(3, 4)

        def forward(self, x):
            return self.head(self.body(x))

    assert parameters_until(Backwards(), torch.randn(1, 3), 1) == {"body.weight", "body.bias"}


def test_a_model_that_only_learns_in_batches_is_asked_in_evaluation_mode():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    model.stages = ("1",)
    assert parameters_until(model, torch.randn(1, 3), 1) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert model.training
    assert model[1].num_batches_tracked == 0


def test_models_without_stages_and_wrong_names_are_refused_in_a_sentence():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    with pytest.raises(FedloomError, match="Sequential names no stages"):
        stage_names(model)
    model.stages = ("0", "seven")
    with pytest.raises(FedloomError, match="the stage 'seven' of Sequential is not one of its submodules: it has 0, 1"):
        stage_names(model)
    model.stages = ("0",)
    with pytest.raises(FedloomError, match="until=2: the model has the stages 1 to 1"):
        parameters_until(model, torch.randn(1, 3), 2)


def test_a_stage_that_returns_no_tensor_is_refused_in_a_sentence():
    model = nn.Sequential(nn.LSTM(3, 2, batch_first=True))
    model.stages = ("0",)
    with pytest.raises(FedloomError, match="the stage '0' of Sequential returns a tuple and not a tensor"):
        run_with_stages(model, torch.zeros(1, 4, 3))
