"""Losses that compare representations, each as values per sample.

Chen et al., A Simple Framework for Contrastive Learning of Visual Representations, ICML 2020 (NT-Xent,
https://arxiv.org/abs/2002.05709); Chen and He, Exploring Simple Siamese Representation Learning, CVPR 2021
(https://arxiv.org/abs/2011.10566); Li, He and Song, Model-Contrastive Federated Learning, CVPR 2021 (MOON,
https://arxiv.org/abs/2103.16257). The thesis of FedLID prints NT-Xent without its minus.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def nt_xent(
    z: Tensor, mask: Tensor, temperature: float, negatives: Tensor | None = None, real: Tensor | None = None
) -> Tensor:
    """NT-Xent of each sample: the mean of ``-log(exp(s_ij / t) / sum_{k != i} exp(s_ik / t))`` over its two views.

    ``s`` is the cosine, j the other view of the same sample, and k runs over all other views of the batch and over
    ``negatives``. A batch of one sample without negatives has the loss 0.

    Args:
        z: The projections of two views of each sample, n×2×d.
        mask: 1 for each sample, and 0 for padding, which is nobody's negative.
        temperature: The temperature t.
        negatives: More representations that no sample is to be like, m×d.
        real: 1 for each of them that counts, and 0 for padding; all count by default.
    """
    n = z.shape[0]
    views = F.normalize(torch.cat([z[:, 0], z[:, 1]]), dim=1)
    logits = views @ views.t() / temperature
    counts = torch.cat([mask, mask]) > 0
    others = counts.unsqueeze(0) & ~torch.eye(2 * n, dtype=torch.bool)
    logits = logits.masked_fill(~others, -torch.inf)
    partner = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    near = (views * views[partner]).sum(1) / temperature
    if negatives is not None and len(negatives):
        far = views @ F.normalize(negatives, dim=1).t() / temperature
        far = far if real is None else far.masked_fill(real.unsqueeze(0) <= 0, -torch.inf)
        logits = torch.cat([logits, far], dim=1)
    # padding may stand alone; its value is not counted, but it must be finite
    logits = torch.where(counts.unsqueeze(1), logits, torch.zeros(()))
    return (logits.logsumexp(1) - near).view(2, n).mean(0)


def simsiam(z: Tensor, predictions: Tensor) -> Tensor:
    """SimSiam's loss of each sample: ``-(cos(p_1, sg(z_2)) + cos(p_2, sg(z_1))) / 2``, where sg stops the gradient.

    Args:
        z: The projections of two views of each sample, n×2×d.
        predictions: What the predictor makes of them, n×2×d.
    """
    return -F.cosine_similarity(predictions, z.detach().flip(1), dim=2).mean(1)


def model_contrast(z: Tensor, near: Tensor, far: Tensor, temperature: float) -> Tensor:
    """MOON's contrast of each sample: ``-log(exp(s_n / t) / (exp(s_n / t) + exp(s_f / t)))``.

    ``s_n`` and ``s_f`` are the cosines of its representation with those under a model that it is to stay near and a
    model that it is to leave.

    Args:
        z: Representations, n×d.
        near: The same samples under the model to stay near.
        far: The same samples under the model to leave.
        temperature: The temperature t.
    """
    stays, leaves = F.cosine_similarity(z, near), F.cosine_similarity(z, far)
    return F.softplus((leaves - stays) / temperature)
