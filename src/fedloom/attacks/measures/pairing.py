"""Which of the samples that an attack rebuilt stands for which original: it does not know their order.

The assignment with the least sum of squared differences, each rebuilt sample used once. Kuhn, The Hungarian Method for
the Assignment Problem, 1955.
"""

from __future__ import annotations

import torch
from torch import Tensor


def best_assignment(rebuilt: Tensor, originals: Tensor) -> Tensor:
    """For each original the place of the rebuilt sample that stands for it; -1 where fewer were rebuilt.

    Args:
        rebuilt: What was rebuilt.
        originals: Samples of the same shape.
    """
    from scipy.optimize import linear_sum_assignment

    found = torch.full((len(originals),), -1, dtype=torch.int64)
    if len(rebuilt) and len(originals):
        costs = torch.cdist(originals.flatten(1).double(), rebuilt.flatten(1).double()).square()
        rows, columns = linear_sum_assignment(costs.numpy())
        found[torch.as_tensor(rows)] = torch.as_tensor(columns)
    return found
