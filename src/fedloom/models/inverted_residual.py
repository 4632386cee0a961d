"""A pair of small networks of inverted residual blocks: after MobileNetV3 and after EfficientNet.

An inverted residual block (Sandler et al., MobileNetV2, CVPR 2018, https://arxiv.org/abs/1801.04381) widens its maps by
a 1×1 convolution, filters each map alone, and projects back without an activation. Squeeze-and-excitation (Hu et al.,
CVPR 2018, https://arxiv.org/abs/1709.01507) weights the wide maps by what is in all of them. Kernels, activations and
places of squeeze-and-excitation are those of the originals. Each has seven blocks, narrow maps and fewer halvings, so
that small images train on CPUs. GroupNorm takes the place of BatchNorm (see ``resnet.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor, nn

from fedloom.models.chain import Shape, chain
from fedloom.models.model_kind import takes_images
from fedloom.models.resnet import group_norm, image_stem

WIDTHS = (8, 16, 16, 24, 24, 32, 48)
"""How many maps the seven blocks give."""


@dataclass(frozen=True)
class BlockPlan:
    """A row of a paper's table, apart from the width."""

    kernel: int
    expansion: int
    """How many times as many maps the block has inside."""
    stride: int
    excites: bool
    """Whether it has squeeze-and-excitation."""
    activation: type[nn.Module]


MOBILENET = (
    BlockPlan(3, 1, 1, True, nn.ReLU),
    BlockPlan(3, 4, 2, False, nn.ReLU),
    BlockPlan(3, 4, 1, False, nn.ReLU),
    BlockPlan(5, 4, 2, True, nn.Hardswish),
    BlockPlan(5, 4, 1, True, nn.Hardswish),
    BlockPlan(5, 4, 1, True, nn.Hardswish),
    BlockPlan(5, 4, 2, True, nn.Hardswish),
)
"""MobileNetV3-Small, Table 2: its blocks 1 to 5, the first of width 48 and the first of width 96; expansions are
rounded to 4, and the first block does not halve the image."""

EFFICIENTNET = (
    BlockPlan(3, 1, 1, True, nn.SiLU),
    BlockPlan(3, 4, 2, True, nn.SiLU),
    BlockPlan(5, 4, 2, True, nn.SiLU),
    BlockPlan(3, 4, 1, True, nn.SiLU),
    BlockPlan(5, 4, 1, True, nn.SiLU),
    BlockPlan(5, 4, 2, True, nn.SiLU),
    BlockPlan(3, 4, 1, True, nn.SiLU),
)
"""EfficientNet-B0, Table 1: the first block of each of its stages 2 to 8, with expansion 4 instead of 6; the fourth
does not halve the image."""


class SqueezeExcitation(nn.Module):
    """Each map times a weight between 0 and 1, which two 1×1 convolutions make of the means of all maps."""

    def __init__(self, maps: int, inside: int, activation: type[nn.Module], gate: type[nn.Module]) -> None:
        super().__init__()
        self.weight = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(maps, inside, 1), activation(), nn.Conv2d(inside, maps, 1), gate()
        )

    def forward(self, x: Tensor) -> Tensor:
        """N × maps × H × W to the same shape."""
        out: Tensor = x * self.weight(x)
        return out


Excitation = Callable[[int, int], SqueezeExcitation]
"""Makes a block's squeeze-and-excitation, from its numbers of maps at the input and inside."""


class InvertedResidual(nn.Module):
    """``f(x)``, plus x where the shape stays; f widens by 1×1, filters each map, weights the maps, projects by 1×1."""

    def __init__(self, maps: int, width: int, plan: BlockPlan, excitation: Excitation) -> None:
        super().__init__()
        inside = maps * plan.expansion
        layers: list[nn.Module] = []
        if plan.expansion > 1:
            layers += [nn.Conv2d(maps, inside, 1, bias=False), group_norm(inside), plan.activation()]
        layers += [
            nn.Conv2d(inside, inside, plan.kernel, plan.stride, plan.kernel // 2, groups=inside, bias=False),
            group_norm(inside),
            plan.activation(),
        ]
        if plan.excites:
            layers.append(excitation(maps, inside))
        layers += [nn.Conv2d(inside, width, 1, bias=False), group_norm(width)]
        self.body = nn.Sequential(*layers)
        self.adds = maps == width and plan.stride == 1

    def forward(self, x: Tensor) -> Tensor:
        """N × maps × H × W to N × width × H/stride × W/stride."""
        out: Tensor = self.body(x)
        return x + out if self.adds else out


@takes_images(8)
def mini_mobilenet(
    input_shape: Shape, classes: int, widths: Sequence[int] = WIDTHS, stem_stride: int = 1
) -> nn.Sequential:
    """Seven inverted residual blocks after MobileNetV3-Small, with ReLU, then hard-swish, and GroupNorm.

    Howard et al., Searching for MobileNetV3, ICCV 2019, https://arxiv.org/abs/1905.02244.
    """

    def excitation(_: int, inside: int) -> SqueezeExcitation:
        return SqueezeExcitation(inside, inside // 4, nn.ReLU, nn.Hardsigmoid)

    return _blocks_in_order(input_shape, classes, MOBILENET, widths, stem_stride, nn.Hardswish, excitation)


@takes_images(8)
def mini_efficientnet(
    input_shape: Shape, classes: int, widths: Sequence[int] = WIDTHS, stem_stride: int = 1
) -> nn.Sequential:
    """Seven inverted residual blocks after EfficientNet-B0, with SiLU, squeeze-and-excitation and GroupNorm.

    Tan and Le, EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks, ICML 2019,
    https://arxiv.org/abs/1905.11946.
    """

    def excitation(maps: int, inside: int) -> SqueezeExcitation:
        return SqueezeExcitation(inside, maps // 4, nn.SiLU, nn.Sigmoid)

    return _blocks_in_order(input_shape, classes, EFFICIENTNET, widths, stem_stride, nn.SiLU, excitation)


def _blocks_in_order(
    input_shape: Shape,
    classes: int,
    plans: Sequence[BlockPlan],
    widths: Sequence[int],
    stem_stride: int,
    activation: type[nn.Module],
    excitation: Excitation,
) -> nn.Sequential:
    """A 3×3 convolution, the blocks, a 1×1 convolution to twice the last width, the mean over places, and the head."""
    if len(widths) != len(plans):
        raise ValueError(f"widths has {len(widths)} numbers: give one per block, {len(plans)}")
    stem = image_stem(input_shape[0], widths[0], stem_stride, activation())
    maps = pairwise([widths[0], *widths])
    blocks = [InvertedResidual(*pair, plan, excitation) for pair, plan in zip(maps, plans, strict=True)]
    last = 2 * widths[-1]
    end = [nn.Conv2d(widths[-1], last, 1, bias=False), group_norm(last), activation()]
    layers = [*stem, *blocks, *end, nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return chain(layers, nn.Linear(last, classes), blocks)
