"""What is done to inputs before a model sees them: normalisation, token indices, augmentation of images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

Channels = tuple[float, ...]
"""A number per channel or feature."""


@dataclass(frozen=True)
class Normalise:
    """Scales bytes to [0, 1], then gives each channel mean 0 and standard deviation 1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, x: Tensor) -> Tensor:
        """Normalised floats."""
        shape = (1, -1, *[1] * (x.dim() - 2))
        mean, std = self._of_bytes if x.dtype == torch.uint8 else self._of_numbers
        return (x.float() - mean.view(shape)).div_(std.view(shape))

    @cached_property
    def _of_numbers(self) -> tuple[Tensor, Tensor]:
        return torch.tensor(self.mean), torch.tensor(self.std)

    @cached_property
    def _of_bytes(self) -> tuple[Tensor, Tensor]:
        mean, std = self._of_numbers
        return mean * 255.0, std * 255.0


def normalisation(
    mean: Channels | Mapping[str, Channels], std: Channels | Mapping[str, Channels]
) -> Normalise | dict[str, Normalise]:
    """The normalisation of one input column, or of each of several by name."""
    if isinstance(mean, Mapping) and isinstance(std, Mapping):
        return {name: Normalise(mean[name], std[name]) for name in mean}
    return Normalise(mean, std)  # type: ignore[arg-type]


def tokens(x: Tensor) -> Tensor:
    """Symbols or words, stored in few bytes, as the int64 indices that an embedding takes."""
    return x.long()


@dataclass(frozen=True)
class CropFlip:
    """The usual augmentation of small images: a random shift by up to ``pad`` pixels, mirrored with probability 1/2."""

    pad: int = 4

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """The images, each shifted and possibly mirrored at random."""
        count, _, height, width = x.shape
        shift = torch.randint(0, 2 * self.pad + 1, (2, count, 1), generator=generator)
        mirrored = torch.rand(count, generator=generator) < 0.5
        columns = torch.arange(width).expand(count, -1)
        columns = torch.where(mirrored[:, None], columns.flip(1), columns) + shift[0]
        rows = torch.arange(height).expand(count, -1) + shift[1]
        padded = F.pad(x, (self.pad,) * 4)
        picked = torch.arange(count)[:, None, None]
        return padded.permute(0, 2, 3, 1)[picked, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
