"""FedSimSiam: FedAvg of encoders that clients train without labels, by SimSiam.

As FedSimCLR, with a predictor behind the projection head and the loss
``-(cos(p_1, sg(z_2)) + cos(p_2, sg(z_1))) / 2`` of two views' projections z and predictions p, where sg stops the
gradient; ``w <- sum_k p_k w_k``. It compares no image with another one, so that small batches are enough.

Chen and He, Exploring Simple Siamese Representation Learning, CVPR 2021, https://arxiv.org/abs/2011.10566. The paper's
heads normalise by statistics of the batch; here a layer normalises each sample alone, as models of clients that differ
should.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedloom.core.network import Loss, Network
from fedloom.core.task import Task
from fedloom.methods.selfsupervised.contrast import simsiam
from fedloom.methods.selfsupervised.heads import PREDICTOR, with_predictor
from fedloom.methods.selfsupervised.two_views import EncoderAveraging, projections


@dataclass(frozen=True)
class FedSimSiam(EncoderAveraging):
    """FedAvg of bodies, projection heads and predictors that clients train without labels, by SimSiam.

    Args:
        projection: How many numbers the projection head makes of an image.
        crop: The smallest share of the image that a view shows; 1 does not crop.
        flip: How often a view is mirrored.
        jitter: Strength of colour changes; 0 leaves colours as they are.
        grayscale: How often a view is grey.
        blur: How often a view is blurred.
    """

    def adapt_task(self, task: Task) -> Task:
        return with_predictor(self.name, task, self.projection)

    @property
    def local_loss(self) -> Loss:
        def loss(net: Network, x: Tensor, y: Tensor, _: Any) -> tuple[Tensor, Tensor]:
            z = projections(net, x)
            return simsiam(z, net.apply(PREDICTOR, z)), torch.ones(len(y))

        return loss
