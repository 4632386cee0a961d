"""The Fréchet distance of two sets of features, taken for Gaussians (FID).

``|m1 - m2|² + tr(S1 + S2 - 2 (S1 S2)^(1/2))`` with the matrix square root. Heusel, Ramsauer, Unterthiner, Nessler and
Hochreiter, GANs Trained by a Two Time-Scale Update Rule Converge to a Local Nash Equilibrium, NeurIPS 2017,
https://arxiv.org/abs/1706.08500. Published values use Inception's features; ours are those of a classifier of the same
data ("FID-clf"), and the two must not be compared.
"""

from __future__ import annotations

import torch
from torch import Tensor


def frechet_distance(mean: Tensor, covariance: Tensor, other_mean: Tensor, other_covariance: Tensor) -> float:
    """The distance of two Gaussians.

    ``tr (S1 S2)^(1/2)`` is the sum of the roots of the eigenvalues of ``S1^(1/2) S2 S1^(1/2)``, which is symmetric.

    Args:
        mean: The mean of the first one.
        other_mean: The mean of the second one.
    """
    values, vectors = torch.linalg.eigh(covariance.double())
    root = (vectors * values.clamp(min=0).sqrt()) @ vectors.T
    mixed = torch.linalg.eigvalsh(root @ other_covariance.double() @ root)
    trace = covariance.double().trace() + other_covariance.double().trace() - 2 * mixed.clamp(min=0).sqrt().sum()
    return max(0.0, float((mean.double() - other_mean.double()).square().sum() + trace))


def fid(features: Tensor, others: Tensor) -> float:
    """The distance of two sets of features: a row per sample, at least two.

    Args:
        features: Those of one set.
        others: Those of the other set.
    """
    one, other = features.double(), others.double()
    return frechet_distance(one.mean(0), torch.cov(one.T), other.mean(0), torch.cov(other.T))
