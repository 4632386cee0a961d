"""A narrow network as the leading corner of a wide one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedloom.core.errors import FedloomError
from fedloom.core.layout import Layout
from fedloom.core.model.corners import corner_columns, corner_masks, is_corner


def two_layers(hidden):
    return nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, 2))


def test_a_narrow_row_has_the_first_units_and_what_lies_between_them():
    wide, narrow = Layout.of(two_layers(3)), Layout.of(two_layers(1))
    # the wide row: 6 weights of 3 units, 3 biases, 2x3 weights of the head, 2 biases
    assert corner_columns(wide, narrow).tolist() == [0, 1, 6, 9, 12, 15, 16]
    assert corner_columns(wide, wide).tolist() == list(range(wide.width))


def test_first_maps_of_a_convolution_are_the_first_inputs_of_the_layer_behind_it():
    def net(maps):
        return nn.Sequential(nn.Conv2d(1, maps, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(maps * 16, 2))

    wide, narrow = net(4), net(2)
    columns = corner_columns(Layout.of(wide), Layout.of(narrow))
    Layout.of(narrow).fill(narrow, Layout.of(wide).row(wide)[columns])
    with torch.no_grad():
        for layer in (wide[0], wide[3]):  # units beyond the corner give nothing
            layer.bias[2:] = 0
        wide[0].weight[2:] = 0
    x = torch.randn(3, 1, 4, 4)
    torch.testing.assert_close(wide(x), narrow(x))


def test_a_mask_is_one_where_the_corner_has_an_entry():
    wide, narrow = Layout.of(two_layers(3)), Layout.of(two_layers(1))
    masks = corner_masks(wide, (narrow, wide))
    assert {name: tuple(mask.shape) for name, mask in masks.items()} == {s.name: (2, *s.shape) for s in wide.slots}
    assert masks["0.weight"][0].tolist() == [[1, 1], [0, 0], [0, 0]]
    assert masks["2.weight"][0].tolist() == [[1, 0, 0], [1, 0, 0]]
    assert masks["2.bias"][0].tolist() == [1, 1]
    assert all(bool((mask[1] == 1).all()) for mask in masks.values())


def test_a_corner_is_as_wide_or_narrower_in_every_tensor():
    wide, narrow = Layout.of(two_layers(3)), Layout.of(two_layers(1))
    assert is_corner(wide, narrow)
    assert is_corner(wide, wide)
    assert not is_corner(narrow, wide)
    assert not is_corner(wide, Layout.of(nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.ReLU(), nn.Linear(1, 2))))


@pytest.mark.parametrize(
    "other",
    [
        two_layers(4),
        nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.ReLU(), nn.Linear(1, 2)),
        nn.Sequential(nn.Linear(2, 2)),  # fits into the first layer
        nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 2)),
    ],
)
def test_a_model_that_is_no_corner_is_refused(other):
    with pytest.raises(FedloomError, match="is not wide made narrower"):
        corner_columns(Layout.of(two_layers(3)), Layout.of(other), ("wide", "narrow"))
