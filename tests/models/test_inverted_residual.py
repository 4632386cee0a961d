"""Networks of inverted residual blocks: sizes by formula, stages, and what the originals have where."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from fedloom.core.errors import FedloomError
from fedloom.models import build
from fedloom.models.inverted_residual import EFFICIENTNET, MOBILENET, WIDTHS, InvertedResidual, SqueezeExcitation

PLANS = {"mini-mobilenet": MOBILENET, "mini-efficientnet": EFFICIENTNET}


def parameters(name: str, maps: int, classes: int) -> int:
    """How many parameters a network has: stem, blocks (widen, filter, excite, project), last convolution, head."""
    total = 9 * maps * WIDTHS[0] + 2 * WIDTHS[0]
    for (before, width), plan in zip(pairwise((WIDTHS[0], *WIDTHS)), PLANS[name], strict=True):
        inside = before * plan.expansion
        total += before * inside + 2 * inside if plan.expansion > 1 else 0
        total += plan.kernel**2 * inside + 2 * inside
        if plan.excites:
            squeezed = (inside if name == "mini-mobilenet" else before) // 4
            total += 2 * inside * squeezed + squeezed + inside
        total += inside * width + 2 * width
    last = 2 * WIDTHS[-1]
    return total + WIDTHS[-1] * last + 2 * last + last * classes + classes


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize(("maps", "classes"), [(1, 10), (3, 100)])
def test_parameters_are_counted_by_the_formula(name: str, maps: int, classes: int) -> None:
    model = build(name, (maps, 8, 8), classes, 0)
    assert sum(p.numel() for p in model.parameters()) == parameters(name, maps, classes)


@pytest.mark.parametrize("stem_stride", [1, 2])
@pytest.mark.parametrize("name", PLANS)
def test_the_stages_are_the_seven_blocks(name: str, stem_stride: int) -> None:
    model = build(name, (1, 8, 8), 3, 0, stem_stride=stem_stride)
    blocks = [model.get_submodule(stage) for stage in model.stages]
    assert all(isinstance(block, InvertedResidual) for block in blocks)
    x = model[:3](torch.zeros(2, 1, 8, 8))
    for block, width in zip(blocks, WIDTHS, strict=True):
        x = block(x)
        assert x.shape[:2] == (2, width)


def test_activations_and_excitation_are_where_the_originals_have_them() -> None:
    def kinds(name: str, kind: Any) -> list[bool]:
        model = build(name, (1, 8, 8), 3, 0)
        return [any(isinstance(one, kind) for one in model.get_submodule(stage).modules()) for stage in model.stages]

    assert kinds("mini-mobilenet", SqueezeExcitation) == [True, False, False, True, True, True, True]
    assert kinds("mini-mobilenet", nn.Hardswish) == [False] * 3 + [True] * 4
    assert kinds("mini-efficientnet", SqueezeExcitation) == kinds("mini-efficientnet", nn.SiLU) == [True] * 7
    assert not any(kinds("mini-efficientnet", nn.Hardswish))


def test_a_block_adds_its_input_where_the_shape_stays() -> None:
    block = InvertedResidual(8, 8, MOBILENET[2], lambda maps, inside: SqueezeExcitation(inside, maps, nn.ReLU, nn.ReLU))
    nn.init.zeros_(block.body[-1].weight)  # the branch is then its GroupNorm's bias: zero
    x = torch.randn(2, 8, 4, 4)
    assert torch.equal(block(x), x)


def test_squeeze_and_excitation_multiplies_each_map_by_one_number() -> None:
    x = torch.rand(2, 4, 3, 3) + 0.5
    ratio = SqueezeExcitation(4, 2, nn.ReLU, nn.Sigmoid)(x) / x
    assert torch.allclose(ratio, ratio.mean((2, 3), keepdim=True).expand_as(x), atol=1e-6)
    assert ((ratio > 0) & (ratio < 1)).all()


def test_a_wrong_number_of_widths_is_refused_in_a_sentence() -> None:
    with pytest.raises(FedloomError, match="widths has 3 numbers: give one per block, 7"):
        build("mini-mobilenet", (1, 8, 8), 3, 0, widths=(8, 8, 8))
