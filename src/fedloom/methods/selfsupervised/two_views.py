"""What methods share that learn from two random views of each image: the views, the projection head, SimCLR's loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.network import Loss, Network
from fedloom.core.task import Task
from fedloom.methods.selfsupervised.augmentation import Augmentation
from fedloom.methods.selfsupervised.contrast import nt_xent
from fedloom.methods.selfsupervised.heads import PROJECTION, with_projection
from fedloom.methods.selfsupervised.shared_columns import SharedColumns


@dataclass(frozen=True)
class TwoViews(SharedColumns):
    """A method that compares two random views of each image.

    Args:
        projection: How many numbers the projection head makes of an image.
        crop: The smallest share of the image that a view shows; 1 does not crop.
        flip: How often a view is mirrored.
        jitter: Strength of colour changes; 0 leaves colours as they are.
        grayscale: How often a view is grey.
        blur: How often a view is blurred.
    """

    projection: int = 128
    crop: float = 0.2
    flip: float = 0.5
    jitter: float = 0.5
    grayscale: float = 0.2
    blur: float = 0.0

    def __post_init__(self) -> None:
        if self.projection < 1:
            raise FedloomError(f"projection={self.projection}: a projection has at least one number.")
        _ = self.augmentation  # refuses what no augmentation can be

    @property
    def name(self) -> str:
        """The method's name, for errors."""
        return type(self).__name__.lower()

    @property
    def augmentation(self) -> Augmentation:
        """How views differ from their image."""
        return Augmentation(self.crop, self.flip, self.jitter, self.grayscale, self.blur)

    @property
    def compares_views(self) -> bool:
        """Whether the method compares views of images with these settings."""
        return True

    @property
    def needs(self) -> Facts:  # type: ignore[override]
        return {Fact.IMAGES: "compares random views of images: use a task on images"} if self.compares_views else {}

    def adapt_task(self, task: Task) -> Task:
        return with_projection(self.name, task, self.projection)


def simclr_loss(temperature: float) -> Loss:
    """NT-Xent between the projections of two views, as a loss of training.

    Args:
        temperature: The temperature.
    """

    def loss(net: Network, x: Tensor, y: Tensor, _: Any) -> tuple[Tensor, Tensor]:
        return nt_xent(projections(net, x), net.mask, temperature), torch.ones(len(y))

    return loss


def projections(net: Network, x: Tensor) -> Tensor:
    """The projections of views, n×2×d.

    Args:
        net: A network with a projection head.
        x: Two views of each image, n×2×channels×height×width.
    """
    z = net.apply(PROJECTION, net.features(x.flatten(0, 1)).flatten(1))
    return z.view(len(x), 2, -1)


def check_temperature(temperature: float) -> None:
    """Refuse a temperature that is not positive.

    Args:
        temperature: The temperature.
    """
    if not temperature > 0:
        raise FedloomError(f"temperature={temperature}: it must be a positive number.")
