"""What methods share that learn from two random views of each image: the views, the projection head, SimCLR's loss."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Model
from fedloom.core.facts import Fact, Facts
from fedloom.core.message import Message, Reply
from fedloom.core.network import Loss, Network
from fedloom.core.settings import Count, PositiveShare, Share
from fedloom.core.task import Task
from fedloom.methods.selfsupervised.augmentation import Augmentation
from fedloom.methods.selfsupervised.contrast import nt_xent
from fedloom.methods.selfsupervised.heads import PROJECTION, with_projection
from fedloom.methods.shared_columns import SharedColumns, all_but_the_head


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

    projection: Count = 128
    crop: PositiveShare = 0.2
    flip: Share = 0.5
    jitter: Share = 0.5
    grayscale: Share = 0.2
    blur: Share = 0.0

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
    """NT-Xent between the projections of two views, as a loss of training."""

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


@dataclass(frozen=True)
class EncoderAveraging(TwoViews):
    """Clients train encoders by a loss on two views of each image; the server takes their weighted mean.

    The base of FedSimCLR, FedSimSiam and FedCA. The model's head is not trained and does not travel: fit it behind the
    encoder with the prediction stage ``linearprobe``, or start another run from this one (``start_from``).
    """

    breaks: ClassVar[Facts] = {
        Fact.WHOLE_MODEL: "shares a part of the model only",
        Fact.TRAINS_HEAD: "does not train the head",
    }
    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_MEANS,)
    receives: ClassVar[Declared] = {
        "encoder": Model("the model's body and what the method added to it", columns=all_but_the_head)
    }
    sends: ClassVar[Declared] = {
        "encoder": Model("the body and the added modules that the site trained", columns=all_but_the_head)
    }

    @property
    def local_loss(self) -> Loss:
        """What clients minimise; its inputs are two views of each image."""
        raise TypeError(f"{type(self).__name__} has no local_loss")

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        rows = cohort.train(
            self.weights_for(message, cohort), loss=self.local_loss, augment=self.augmentation.two_views
        )
        return Reply({"encoder": rows[:, self.columns(cohort.task)]})
