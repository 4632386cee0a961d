"""FedSimCLR: FedAvg of encoders that clients train without labels, by SimCLR.

A client minimises NT-Xent between two random views of each of its images, the mean over views i with the other view j
of ``-log(exp(s_ij / t) / sum_{k != i} exp(s_ik / t))``, where s are cosines of projections. The server takes the
weighted mean of the model's body and its projection head: ``w <- sum_k p_k w_k``. With one client this is SimCLR.

Chen et al., A Simple Framework for Contrastive Learning of Visual Representations, ICML 2020,
https://arxiv.org/abs/2002.05709. As a federated baseline: Zhang et al., Federated Unsupervised Representation Learning,
2020, https://arxiv.org/abs/2010.08982.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.core.network import Loss
from fedloom.core.settings import Positive
from fedloom.methods.selfsupervised.two_views import EncoderAveraging, simclr_loss


@dataclass(frozen=True)
class FedSimCLR(EncoderAveraging):
    """FedAvg of bodies and projection heads that clients train without labels, by SimCLR.

    Args:
        projection: How many numbers the projection head makes of an image.
        crop: The smallest share of the image that a view shows; 1 does not crop.
        flip: How often a view is mirrored.
        jitter: Strength of colour changes; 0 leaves colours as they are.
        grayscale: How often a view is grey.
        blur: How often a view is blurred.
        temperature: The temperature of NT-Xent.
    """

    temperature: Positive = 0.5

    @property
    def local_loss(self) -> Loss:
        return simclr_loss(self.temperature)
