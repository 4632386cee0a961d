"""Residual networks: their sizes by formula, and their stages."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import nn

from fedloom.core.errors import FedloomError
from fedloom.models import build

BLOCKS = {"resnet8": 1, "resnet14": 2, "resnet20": 3}


def parameters(maps: int, classes: int, blocks: int, widths: tuple[int, ...]) -> int:
    """How many parameters a residual network has: convolutions without biases, GroupNorm, the head."""
    total = 9 * maps * widths[0] + 2 * widths[0]
    for before, width in pairwise((widths[0], *widths)):
        total += 9 * before * width + 9 * width**2 + 4 * width + (before * width if before != width else 0)
        total += (blocks - 1) * (18 * width**2 + 4 * width)
    return total + widths[-1] * classes + classes


def maps_of_stages(model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    maps: list[torch.Tensor] = []
    hooks = [
        model.get_submodule(name).register_forward_hook(lambda _, __, out: maps.append(out)) for name in model.stages
    ]
    model(x)
    for hook in hooks:
        hook.remove()
    return maps


@pytest.mark.parametrize("widths", [(16, 32, 64), (8, 16, 24, 32), (9, 12)])
@pytest.mark.parametrize("name", BLOCKS)
def test_parameters_are_counted_by_the_formula(name: str, widths: tuple[int, ...]) -> None:
    model = build(name, (3, 16, 16), 7, 0, widths=widths)
    assert sum(p.numel() for p in model.parameters()) == parameters(3, 7, BLOCKS[name], widths)


@pytest.mark.parametrize(("stem_stride", "sides"), [(1, [16, 8, 4, 2]), (2, [8, 4, 2, 1])])
@pytest.mark.parametrize("name", BLOCKS)
def test_the_named_stages_give_one_map_per_width_in_order(name: str, stem_stride: int, sides: list[int]) -> None:
    model = build(name, (1, 16, 16), 3, 0, widths=(8, 16, 24, 32), stem_stride=stem_stride)
    maps = maps_of_stages(model, torch.zeros(2, 1, 16, 16))
    assert [tuple(one.shape[1:]) for one in maps] == [
        (width, side, side) for width, side in zip((8, 16, 24, 32), sides, strict=True)
    ]


@pytest.mark.parametrize("name", BLOCKS)
def test_a_network_has_the_depth_of_its_name(name: str) -> None:
    layers = [one for one in build(name, (1, 8, 8), 3, 0).modules() if isinstance(one, nn.Conv2d | nn.Linear)]
    shortcuts = [one for one in layers if isinstance(one, nn.Conv2d) and one.kernel_size == (1, 1)]
    assert len(layers) - len(shortcuts) == int(name.removeprefix("resnet"))


def test_resnet_small_is_resnet8_to_the_byte_and_names_its_stages() -> None:
    small, eight = (build(name, (3, 32, 32), 10, 5) for name in ("resnet-small", "resnet8"))
    assert small.stages == eight.stages == ("3", "4", "5")
    assert list(small.state_dict()) == list(eight.state_dict())
    assert all(torch.equal(small.state_dict()[name], tensor) for name, tensor in eight.state_dict().items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"widths": ()}, "widths is empty"),
        ({"widths": (8, 4)}, "a width of 4 is too narrow: give at least 8 maps"),
        ({"widths": 8}, "cannot be made with widths=8"),
        ({"stem_stride": 0}, "a stem_stride of 0 is not possible: use 1, 2 or 4"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(options: dict[str, object], message: str) -> None:
    with pytest.raises(FedloomError, match=message):
        build("resnet8", (1, 8, 8), 3, 0, **options)
