"""The random views of SimCLR, for a batch of images at once: crop, flip, colour jitter, grey, blur.

Chen et al., A Simple Framework for Contrastive Learning of Visual Representations, ICML 2020, appendix A,
https://arxiv.org/abs/2002.05709. Images are the task's prepared inputs, whose range is not known. So brightness is a
shift in standard deviations of the image, hue turns the two colour axes of YIQ, and nothing is clamped: a view of
``a * x + b`` is ``a`` times the view of x, plus b. Images that do not have three channels keep their colours. Strengths
differ, too: with the strength s the paper changes brightness, contrast and saturation by up to 0.8 s and hue by up to
0.2 s of a turn; here it is s, and s / 8 of a turn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fedloom.core.settings import PositiveShare, Share, check_settings

LUMINANCE = torch.tensor([0.299, 0.587, 0.114])
"""What red, green and blue add to the grey of a pixel."""
TO_YIQ = torch.tensor([[0.299, 0.587, 0.114], [0.5959, -0.2746, -0.3213], [0.2115, -0.5227, 0.3112]])
JITTER_RATE = 0.8
"""How often the colours of a view are changed."""
RATIO = math.log(4 / 3)
"""The largest logarithm of width over height of a crop."""
MOST_BLUR = 2.0
"""The largest standard deviation of the blur, in pixels."""


@dataclass(frozen=True)
class Augmentation:
    """How views differ from their image.

    Args:
        crop: The smallest share of the image that a crop has; 1 does not crop.
        flip: How often a view is mirrored.
        jitter: Strength of changes of brightness, contrast, saturation and (a quarter of it) hue, which four of five
            views have; 0 changes nothing.
        grayscale: How often a view is grey.
        blur: How often a view is blurred.
    """

    crop: PositiveShare = 0.2
    flip: Share = 0.5
    jitter: Share = 0.5
    grayscale: Share = 0.2
    blur: Share = 0.0

    def __post_init__(self) -> None:
        check_settings(self)

    def view(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """One random view of each image.

        Args:
            x: Images, n×channels×height×width.
            generator: The randomness.
        """
        x = crop_and_flip(x, self.crop, self.flip, generator)
        if self.jitter:
            x = torch.lerp(x, jitter_colours(x, self.jitter, generator), draw(len(x), JITTER_RATE, generator))
        if self.grayscale and x.shape[1] == 3:
            x = torch.lerp(x, grey(x).expand_as(x), draw(len(x), self.grayscale, generator))
        if self.blur:
            is_blurred = draw(len(x), self.blur, generator)
            spread = MOST_BLUR * torch.rand(len(x), generator=generator).clamp(min=0.05)
            x = torch.lerp(x, blur(x, spread), is_blurred)
        return x

    def two_views(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Two random views of each image, n×2×channels×height×width: what ``cohort.train(augment=...)`` takes.

        Args:
            x: Images, n×channels×height×width.
            generator: The randomness.
        """
        both = self.view(x.repeat_interleave(2, 0), generator)
        return both.view(len(x), 2, *x.shape[1:])


def crop_and_flip(x: Tensor, smallest: float, flip: float, generator: torch.Generator) -> Tensor:
    """A random box of each image, resized to the image's size (bilinear), and mirrored now and then.

    The box has a share of the area between ``smallest`` and 1 and a ratio of its sides between 3/4 and 4/3, both cut to
    what the image holds, and lies anywhere in it.

    Args:
        x: Images.
        smallest: The smallest share of the area.
        flip: How often an image is mirrored.
        generator: The randomness.
    """
    area, ratio, left, top, mirrored = torch.rand(5, len(x), generator=generator)
    area = smallest + (1 - smallest) * area
    stretch = torch.exp((ratio - 0.5) * RATIO * (1.0 if smallest < 1 else 0.0))
    wide, high = ((area.sqrt() * side).clamp(max=1) for side in (stretch, 1 / stretch))
    signs = torch.where(mirrored < flip, -1.0, 1.0)
    boxes = torch.zeros(len(x), 2, 3)
    boxes[:, 0, 0], boxes[:, 0, 2] = wide * signs, (1 - wide) * (2 * left - 1)
    boxes[:, 1, 1], boxes[:, 1, 2] = high, (1 - high) * (2 * top - 1)
    return sample_boxes(x, boxes)


def sample_boxes(x: Tensor, boxes: Tensor) -> Tensor:
    """Boxes of images as images of the same size.

    Args:
        x: Images.
        boxes: For each image the 2×3 matrix from the coordinates of the result to those of the image, both -1 to 1.
    """
    places = F.affine_grid(boxes, list(x.shape), align_corners=False)
    return F.grid_sample(x, places, padding_mode="border", align_corners=False)


def jitter_colours(x: Tensor, strength: float, generator: torch.Generator) -> Tensor:
    """Random brightness, contrast, saturation and hue of each image, in this order.

    Args:
        x: Images.
        strength: Brightness moves by at most this many standard deviations; contrast and saturation are multiplied by
            1 ± it, and hue turns by at most a quarter of it in half turns.
        generator: The randomness.
    """
    shift, contrast, saturation, hue = ((2 * torch.rand(4, len(x), generator=generator) - 1) * strength).view(
        4, len(x), 1, 1, 1
    )
    x = x + shift * x.flatten(1).std(1, correction=0).view(-1, 1, 1, 1)
    centre = (grey(x) if x.shape[1] == 3 else x).flatten(1).mean(1).view(-1, 1, 1, 1)
    x = torch.lerp(centre, x, 1 + contrast)
    if x.shape[1] != 3:
        return x
    return turn_hue(torch.lerp(grey(x), x, 1 + saturation), hue.flatten() * math.pi / 4)


def grey(x: Tensor) -> Tensor:
    """The luminance of colour images, n×1×height×width."""
    return (x * LUMINANCE.view(3, 1, 1)).sum(1, keepdim=True)


def turn_hue(x: Tensor, angles: Tensor) -> Tensor:
    """Colour images with their hues turned; greys stay as they are.

    Args:
        x: Colour images.
        angles: An angle for each image, in radians.
    """
    turns = torch.zeros(len(x), 3, 3)
    turns[:, 0, 0] = 1
    turns[:, 1, 1] = turns[:, 2, 2] = angles.cos()
    turns[:, 2, 1] = angles.sin()
    turns[:, 1, 2] = -angles.sin()
    mixed = torch.linalg.inv(TO_YIQ) @ turns @ TO_YIQ
    return torch.einsum("nij,njhw->nihw", mixed, x)


def blur(x: Tensor, spread: Tensor) -> Tensor:
    """Images blurred by a 3×3 Gaussian.

    Args:
        x: Images.
        spread: The standard deviation for each image, in pixels.
    """
    side = torch.exp(-0.5 / spread.square()).view(-1, 1, 1, 1)
    centre = 1 / (1 + 2 * side)
    padded = F.pad(x, (1, 1, 1, 1), mode="replicate")
    rows = centre * (padded[..., 1:-1] + side * (padded[..., :-2] + padded[..., 2:]))
    return centre * (rows[..., 1:-1, :] + side * (rows[..., :-2, :] + rows[..., 2:, :]))


def draw(count: int, rate: float, generator: torch.Generator) -> Tensor:
    """Draw which images are changed, each with the same probability: ones and zeros, count×1×1×1.

    Args:
        count: How many images there are.
        rate: The probability.
        generator: The randomness.
    """
    return (torch.rand(count, generator=generator) < rate).float().view(-1, 1, 1, 1)
