"""Residual networks without batch statistics.

BatchNorm mixes what clients know of their inputs into shared running means, and fails when their data differ
(Hsieh et al., The Non-IID Data Quagmire of Decentralized Machine Learning, ICML 2020). GroupNorm (Wu and He, ECCV
2018) normalises each sample alone: it has no state to share, and trains vectorised over clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import gcd

from torch import Tensor, nn

from fedloom.models.chain import Shape, chain
from fedloom.models.model_kind import takes_images

GROUPS = 8


def group_norm(width: int) -> nn.GroupNorm:
    """GroupNorm of 8 groups; of fewer where 8 does not divide the number of maps.

    Fewer than 8 maps are refused: torch 2.13 writes beyond its memory in the gradient of a strided 1×1 convolution of
    fewer, in the channels-last format that training uses.
    """
    if width < GROUPS:
        raise ValueError(f"a width of {width} is too narrow: give at least {GROUPS} maps")
    return nn.GroupNorm(gcd(GROUPS, width), width)


class Residual(nn.Module):
    """``relu(x' + f(x))`` with two 3×3 convolutions in f; x' is x, or its 1×1 convolution where the shape changes."""

    def __init__(self, maps: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(maps, width, 3, stride, padding=1, bias=False),
            group_norm(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            group_norm(width),
        )
        same = maps == width and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(maps, width, 1, stride, bias=False)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """N × maps × H × W to N × width × H/stride × W/stride."""
        out: Tensor = self.relu(self.shortcut(x) + self.body(x))
        return out


@takes_images(4)
def resnet_small(input_shape: Shape, classes: int, widths: Sequence[int] = (16, 32, 64)) -> nn.Sequential:
    """ResNet-8 with GroupNorm: one residual block per width, halving the image from the second on.

    He et al., Deep Residual Learning for Image Recognition, CVPR 2016, section 4.2 with n = 1.
    """
    return _resnet(input_shape, classes, 1, widths, stem_stride=1)


@takes_images(4)
def resnet8(
    input_shape: Shape, classes: int, widths: Sequence[int] = (16, 32, 64), stem_stride: int = 1
) -> nn.Sequential:
    """ResNet-8 of He et al. with GroupNorm: a stage of one residual block per width (6n+2 layers, n = 1).

    He et al., Deep Residual Learning for Image Recognition, CVPR 2016, section 4.2, https://arxiv.org/abs/1512.03385.
    Four widths make four stages, as FedHARM has them, and 8n+2 layers. ``stem_stride=2`` halves the image at once, for
    about a quarter of the work. With stride 1 it is ``resnet-small``.
    """
    return _resnet(input_shape, classes, 1, widths, stem_stride)


@takes_images(4)
def resnet14(
    input_shape: Shape, classes: int, widths: Sequence[int] = (16, 32, 64), stem_stride: int = 1
) -> nn.Sequential:
    """ResNet-14 of He et al. with GroupNorm: a stage of two residual blocks per width (6n+2 layers, n = 2).

    See ``resnet8``.
    """
    return _resnet(input_shape, classes, 2, widths, stem_stride)


@takes_images(4)
def resnet20(
    input_shape: Shape, classes: int, widths: Sequence[int] = (16, 32, 64), stem_stride: int = 1
) -> nn.Sequential:
    """ResNet-20 of He et al. with GroupNorm: a stage of three residual blocks per width (6n+2 layers, n = 3).

    See ``resnet8``.
    """
    return _resnet(input_shape, classes, 3, widths, stem_stride)


def image_stem(maps: int, width: int, stride: int, activation: nn.Module) -> list[nn.Module]:
    """The first layers: a 3×3 convolution of the image, normalised."""
    if stride not in (1, 2, 4):
        raise ValueError(f"a stem_stride of {stride} is not possible: use 1, 2 or 4")
    return [nn.Conv2d(maps, width, 3, stride, padding=1, bias=False), group_norm(width), activation]


def _resnet(input_shape: Shape, classes: int, blocks: int, widths: Sequence[int], stem_stride: int) -> nn.Sequential:
    """A 3×3 convolution, a stage of residual blocks per width (all but the first halve the image), mean, and head."""
    if len(widths) == 0:
        raise ValueError("widths is empty: give the number of maps of each stage")
    stem = image_stem(input_shape[0], widths[0], stem_stride, nn.ReLU())
    stages = [_stage(blocks, widths[0], widths[0], stride=1)]
    stages += [_stage(blocks, maps, width, stride=2) for maps, width in pairwise(widths)]
    layers = [*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return chain(layers, nn.Linear(widths[-1], classes), stages)


def _stage(blocks: int, maps: int, width: int, stride: int) -> nn.Module:
    """Residual blocks in order; the first changes the shape. One block is the stage itself."""
    first = Residual(maps, width, stride)
    return first if blocks == 1 else nn.Sequential(first, *(Residual(width, width, 1) for _ in range(blocks - 1)))
