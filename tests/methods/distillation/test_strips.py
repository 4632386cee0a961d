"""Strips of maps, by hand."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fedloom.core.errors import FedloomError
from fedloom.methods.distillation.strips import all_strips, require_equal_strips, strip_distances, strips
from support.distillation import conv_task


def test_strips_are_the_means_along_each_axis():
    """One map of 2×3: two means over three columns, three means over two rows."""
    z = torch.tensor([[[[1.0, 2.0, 3.0], [4.0, 5.0, 9.0]]]])
    assert strips(z).tolist() == [[2.0, 6.0, 2.5, 3.5, 6.0]]


def test_strips_of_several_maps_and_stages_lie_side_by_side():
    z = torch.arange(24.0).view(1, 2, 3, 4)
    assert strips(z).shape == (1, 2 * (3 + 4))
    both = all_strips([z, z[:, :1]])
    assert torch.equal(both, torch.cat([strips(z), strips(z[:, :1])], dim=1))


def test_the_distance_of_a_stage_is_the_norm_of_the_difference_of_its_strips():
    """Three samples of one 1×1 map: both strips are its number, so the distance is sqrt(2) times the difference."""
    z = torch.tensor([1.0, 2.0, 5.0]).view(3, 1, 1, 1)
    goal = all_strips([torch.zeros(3, 1, 1, 1), torch.full((3, 1, 1, 1), 2.0)])
    first, second = strip_distances([z, z], goal)
    assert torch.allclose(first, 2**0.5 * torch.tensor([1.0, 2.0, 5.0]))
    assert torch.allclose(second, 2**0.5 * torch.tensor([1.0, 0.0, 3.0]))


def test_a_stage_without_height_and_width_is_refused():
    with pytest.raises(FedloomError, match="strips are means along the height and the width"):
        strips(torch.zeros(3, 4))


def test_models_whose_stages_give_different_strips_are_refused_together():
    one, other = conv_task(), conv_task()
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 5))
    model.stages = ("0",)
    other = replace(other, model=model)
    require_equal_strips("fld", one)
    with pytest.raises(FedloomError, match=r"different numbers of them \(48, 32; 24\)"):
        require_equal_strips("fld", SimpleNamespace(by_architecture=(one, other)))
