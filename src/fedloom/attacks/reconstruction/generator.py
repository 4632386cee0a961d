"""A generator of images, as a row: a small DCGAN for images of any size.

``z -> (h/4 × w/4) -> (h/2 × w/2) -> (h × w)`` by transposed convolutions with batch normalisation and ReLU, and tanh at
the end, moved to the range of pixels. Normalisation always uses the batch's own statistics: a generator is its weights
and nothing else.

Radford, Metz and Chintala, Unsupervised Representation Learning with Deep Convolutional Generative Adversarial
Networks, ICLR 2016, https://arxiv.org/abs/1511.06434.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from fedloom.core.layout import Layout


@dataclass(frozen=True)
class GeneratorKind:
    """Generators of one architecture.

    Args:
        shape: Channels, height and width of an image.
        low: The lowest value of a pixel.
        high: The highest one.
        latent: How many numbers an image is made of.
        width: The maps of the last hidden layer; the first one has twice as many.
    """

    shape: tuple[int, ...]
    low: float
    high: float
    latent: int
    width: int

    @cached_property
    def layout(self) -> Layout:
        """Where its weights lie in a row."""
        return Layout.of(self.network())

    def network(self, seed: int = 0) -> nn.Sequential:
        """A network with PyTorch's initial weights; the shared random stream stays where it is.

        Args:
            seed: Keys the weights.
        """
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return self._layers()

    def _layers(self) -> nn.Sequential:
        channels, first, second = self.shape[0], 2 * self.width, self.width
        start = [-(-side // 4) for side in self.shape[1:]]
        return nn.Sequential(
            nn.ConvTranspose2d(self.latent, first, (start[0], start[1]), bias=False),
            nn.BatchNorm2d(first, track_running_stats=False),
            nn.ReLU(),
            nn.ConvTranspose2d(first, second, 4, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(second, track_running_stats=False),
            nn.ReLU(),
            nn.ConvTranspose2d(second, channels, 4, stride=2, padding=1),
            nn.Tanh(),
        )

    def new_row(self, seed: int) -> Tensor:
        """The weights of a generator that has learnt nothing.

        Args:
            seed: Keys them.
        """
        return self.layout.row(self.network(seed))

    def filled(self, row: Tensor) -> nn.Sequential:
        """A network with some weights, which it owns.

        Args:
            row: The weights.
        """
        network = self.network()
        self.layout.fill(network, row)
        return network

    def noise(self, number: int, generator: torch.Generator) -> Tensor:
        """What images are made of.

        Args:
            number: Of how many images.
            generator: Draws it.
        """
        return torch.randn(number, self.latent, 1, 1, generator=generator)

    def images(self, network: nn.Module, noise: Tensor) -> Tensor:
        """The images that a network makes, in the range of pixels.

        Args:
            network: The generator.
            noise: What they are made of.
        """
        height, width = self.shape[1:]
        made: Tensor = network(noise)[:, :, :height, :width]
        return self.low + (made + 1) / 2 * (self.high - self.low)

    @torch.no_grad()
    def pictures(self, row: Tensor, number: int, seed: int = 0) -> Tensor:
        """Images from noise that is always the same.

        Args:
            row: The weights of the generator.
            number: How many.
            seed: Keys the noise.
        """
        noise = self.noise(number, torch.Generator().manual_seed(seed))
        return self.images(self.filled(row), noise)
