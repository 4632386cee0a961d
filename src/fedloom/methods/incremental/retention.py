"""Contrastive retention: what a model says of a sample is held near what all models said of it in earlier tasks.

``l_con = -log( exp(sim(z, z_old)/tau) / (exp(sim(z, z_old)/tau) + exp(sim(z, z_new)/tau)) )``, sim being the cosine, z
the model's features of a sample, z_old their mean over clients at the end of an earlier task, and z_new that of this
task. Of several earlier tasks, the losses are added.

Psaltis, Federated, Multi-agent, Deep Reinforcement Learning (thesis, 2024; no public link known), equation 7.5. The
earlier task is the positive, as in the equation, the caption of Table 7.4 and the authors' code; the paragraph below
the equation says the reverse.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def retention(z: Tensor, old: Tensor, known: Tensor, new: Tensor, tau: float) -> Tensor:
    """The loss of each sample; 0 where no earlier task knows it.

    Args:
        z: The model's features: n×features.
        old: The anchors of earlier tasks: n×tasks×features.
        known: Which of them there are: n×tasks.
        new: The anchors of this task: n×features.
        tau: The temperature.
    """
    near = F.cosine_similarity(z.unsqueeze(1), old, dim=2) / tau
    far = F.cosine_similarity(z, new, dim=1) / tau
    lost: Tensor = (F.softplus(far.unsqueeze(1) - near) * known).sum(1)
    return lost
