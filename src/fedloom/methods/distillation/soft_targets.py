"""Cross-entropy with soft targets: what a model is distilled by where the teacher gives probabilities."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def soft_cross_entropy(outputs: Tensor, probabilities: Tensor) -> Tensor:
    """Each sample's ``-sum_c p_c log softmax(o)_c``. Its gradient is that of the divergence ``KL(p || softmax(o))``.

    Args:
        outputs: The student's outputs, n×classes.
        probabilities: The teacher's probabilities p, n×classes.
    """
    return -(probabilities * F.log_softmax(outputs, dim=1)).sum(1)
