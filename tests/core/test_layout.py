"""Rows and their layout."""

import pytest
import torch
from torch import nn

from fedloom.core.errors import FedloomError
from fedloom.core.layout import Layout, in_single_precision
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


class Adapted(nn.Module):
    """A frozen layer, a causal mask, a table and two small matrices that train (LoRA)."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(20, 20).requires_grad_(False)
        self.down, self.up = nn.Linear(20, 2, bias=False), nn.Linear(2, 5)
        self.register_buffer("mask", torch.full((3, 3), -torch.inf).triu(1))
        self.register_buffer("order", torch.randperm(20))
        self.register_buffer("scale", torch.ones(2))


def test_frozen_parameters_masks_and_tables_are_constants_and_not_in_the_row():
    model = Adapted()
    layout = Layout.of(model)
    assert [slot.name for slot in layout.slots] == ["down.weight", "up.weight", "up.bias", "scale"]
    assert set(layout.constants(model)) == {"base.weight", "base.bias", "mask", "order"}
    assert layout.moving("head") == layout.slots[1:3]


def test_the_head_is_the_last_layer_that_trains():
    model = mlp()
    model[4].requires_grad_(False)
    assert [slot.part for slot in Layout.of(model).slots] == ["head", "head"]


def test_a_tied_parameter_and_a_counter_are_no_constants():
    tied = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
    tied[2].weight = tied[0].weight
    assert Layout.of(tied).constants(tied) == {}


def test_a_part_may_be_named_whose_layers_are_frozen():
    model = mlp()
    model.parts = {"head": ["4"], "stem": ["1"]}
    model[1].requires_grad_(False)
    assert Layout.of(model).parts == ("head",)


def test_a_model_that_is_all_frozen_is_refused():
    with pytest.raises(FedloomError, match="Sequential has no trainable parameter"):
        Layout.of(mlp().requires_grad_(False))


def test_a_complex_parameter_is_refused_by_name():
    model = mlp()
    model[4].phase = nn.Parameter(torch.zeros(3, dtype=torch.complex64))
    with pytest.raises(FedloomError, match=r"'4.phase' of Sequential is torch.complex64"):
        Layout.of(model)


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16, torch.float16])
def test_a_model_of_another_precision_is_converted_once_and_with_a_word(kind, caplog):
    model = mlp().to(kind)
    single = in_single_precision(model, "own")
    assert all(p.dtype == torch.float32 for p in single.parameters())
    assert all(p.dtype == kind for p in model.parameters())  # the user's own module is left alone
    assert torch.equal(Layout.of(single).row(single), Layout.of(model).row(model))
    assert in_single_precision(single, "own") is single
    assert len(caplog.records) == 1
    assert "trained in float32" in caplog.text


def test_a_model_of_several_precisions_is_its_owners_business():
    mixed = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4).double())
    assert in_single_precision(mixed, "own") is mixed
