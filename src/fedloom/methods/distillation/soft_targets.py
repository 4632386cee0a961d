"""Cross-entropy with soft targets: what a model is distilled by where the teacher gives probabilities."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from fedloom.core.model.growing_head import of_seen


def soft_cross_entropy(outputs: Tensor, probabilities: Tensor, seen: Tensor | None = None) -> Tensor:
    """Each sample's ``-sum_c p_c log softmax(o)_c``. Its gradient is that of the divergence ``KL(p || softmax(o))``.

    Args:
        outputs: The student's outputs, n×classes.
        probabilities: The teacher's probabilities p, n×classes.
        seen: The classes seen so far in a stream: o and p are of these only, and p is divided by its sum over them.
    """
    if seen is not None:
        outputs, probabilities = of_seen(outputs, seen), of_seen(probabilities, seen)
        probabilities = probabilities / probabilities.sum(1, keepdim=True).clamp(min=1e-12)
    return -(probabilities * F.log_softmax(outputs, dim=1)).sum(1)
