"""A residual network without batch statistics.

BatchNorm mixes what clients know of their inputs into shared running means, and fails when their data differ
(Hsieh et al., The Non-IID Data Quagmire of Decentralized Machine Learning, ICML 2020). GroupNorm (Wu and He, ECCV
2018) normalises each sample alone: it has no state to share, and trains vectorised over clients.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from fedloom.models.chain import Shape, chain

GROUPS = 8


class Residual(nn.Module):
    """``relu(x' + f(x))`` with two 3×3 convolutions in f; x' is x, or its 1×1 convolution where the shape changes."""

    def __init__(self, maps: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(maps, width, 3, stride, padding=1, bias=False),
            nn.GroupNorm(GROUPS, width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.GroupNorm(GROUPS, width),
        )
        same = maps == width and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(maps, width, 1, stride, bias=False)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """N × maps × H × W to N × width × H/stride × W/stride."""
        out: Tensor = self.relu(self.shortcut(x) + self.body(x))
        return out


def resnet_small(input_shape: Shape, classes: int, widths: Sequence[int] = (16, 32, 64)) -> nn.Sequential:
    """ResNet-8 with GroupNorm: one residual block per width, halving the image from the second on.

    He et al., Deep Residual Learning for Image Recognition, CVPR 2016, section 4.2 with n = 1.
    """
    stem = [nn.Conv2d(input_shape[0], widths[0], 3, padding=1, bias=False), nn.GroupNorm(GROUPS, widths[0]), nn.ReLU()]
    blocks = [
        Residual(maps, width, stride=1 if first else 2)
        for first, maps, width in zip([True] + [False] * len(widths), [widths[0], *widths], widths, strict=False)
    ]
    return chain([*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten()], nn.Linear(widths[-1], classes))
