"""Rows and their layout."""

import pytest
import torch
from torch import nn

from fedloom.core.errors import FedloomError
from fedloom.core.layout import Layout
from support.synthetic import Branching, mlp


def test_a_row_holds_every_parameter_in_order():
    model = mlp()
    layout = Layout.of(model)
    assert layout.width == sum(p.numel() for p in model.parameters())
    assert torch.equal(layout.row(model), torch.cat([p.detach().reshape(-1) for p in model.parameters()]))


def test_filling_a_model_from_its_row_changes_nothing():
    model = mlp()
    layout = Layout.of(model)
    before = layout.row(model)
    layout.fill(model, before)
    assert torch.equal(layout.row(model), before)


def test_a_bound_model_and_its_row_are_the_same_memory():
    model = mlp()
    layout = Layout.of(model)
    row = layout.row(model)
    layout.bind(model, row)
    row.zero_()
    assert all(bool((p == 0).all()) for p in model.parameters())
    with torch.no_grad():
        model[1].weight[0, 0] = 3.0
    assert row[0] == 3.0


def test_stacks_of_rows_come_back_as_the_same_rows():
    layout = Layout.of(mlp())
    rows = torch.randn(4, layout.width)
    assert torch.equal(layout.unstack(layout.stacks(rows)), rows)


def test_the_last_parametrised_layer_is_the_head_by_default():
    layout = Layout.of(mlp())
    assert [slot.name for slot in layout.moving("head")] == ["4.weight", "4.bias"]
    assert int(layout.columns("head").sum()) == 16 * 5 + 5
    assert bool((layout.columns("head") ^ layout.columns("body")).all())


def test_a_model_declares_its_own_parts_by_pattern_or_module():
    model = Branching()
    model.parts = {"head": ["head"], "eyes": ["left.*", "right.*"]}
    layout = Layout.of(model)
    assert layout.parts == ("eyes", "head")


def test_a_pattern_that_matches_nothing_is_refused_by_name():
    model = Branching()
    model.parts = {"head": ["fc9.*"]}
    with pytest.raises(FedloomError, match=r"pattern 'fc9.\*' of part 'head' matches no parameter"):
        Layout.of(model)


def test_an_unknown_part_is_refused():
    with pytest.raises(FedloomError, match="no part 'neck'"):
        Layout.of(mlp()).moving("neck")


def test_float_buffers_travel_in_the_row_and_integers_stay_with_the_model():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    model(torch.randn(8, 3))
    layout = Layout.of(model)
    other = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    layout.fill(other, layout.row(model))
    assert torch.equal(other[1].running_mean, model[1].running_mean)
    assert int(other[1].num_batches_tracked) == 0
    assert {slot.name for slot in layout.trainable} == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert layout.trained_columns.tolist() == [True] * 18 + [False] * 6


def test_a_model_without_parameters_is_refused():
    with pytest.raises(FedloomError, match="nothing to train"):
        Layout.of(nn.ReLU())
