"""The aggregation schemes of FedFMRL: how N clients' outputs on the communal set become one anchor.

The thesis (chapter 6) tries three, each with ratios alpha of ``alpha_mixing``:

- A, a weighted average: ``sum_c (1 - alpha_c) * o_c / (N * a_cap)``. **Its weights do not sum to one**: their sum is
  ``(1 - mean of alpha) / a_cap``, about ten if a_cap is 0.1, so that clients chase an anchor that grows tenfold in each
  round. That is what "without normalising" means here. ``normalised_average`` divides by the weights' own sum.
- B, each client with the mean of the others: ``sum_n ((1 - alpha_n) * mean_{j != n} o_j + alpha_n * o_n) / N``: the
  mean of the others is the anchor, as o* is in equation 6.4. Where alpha is the same for all clients this is the plain
  mean.
- C, in sequence: the anchor starts as client 1's output and is mixed with client 2's, 3's, ... in turn. Client i has
  the share ``alpha_i * prod_{j > i} (1 - alpha_j)``: **the last clients decide**, and the first are nearly forgotten.
"""

from __future__ import annotations

from torch import Tensor

from fedloom.methods.distillation.alpha_mixing import mix


def weighted_average(outputs: Tensor, alpha: Tensor, a_cap: float) -> Tensor:
    """Scheme A as it is printed: the weights do not sum to one.

    Args:
        outputs: The clients' outputs, N×samples×classes.
        alpha: Their ratios, of the same shape.
        a_cap: The largest ratio, by which the thesis divides.
    """
    return ((1 - alpha) * outputs).sum(0) / (len(outputs) * a_cap)


def normalised_average(outputs: Tensor, alpha: Tensor) -> Tensor:
    """Scheme A with weights that sum to one: ``sum_c (1 - alpha_c) * o_c / sum_c (1 - alpha_c)``.

    Args:
        outputs: The clients' outputs, N×samples×classes.
        alpha: Their ratios, of the same shape, below one.
    """
    weights = 1 - alpha
    return (weights * outputs).sum(0) / weights.sum(0)


def means_of_others(outputs: Tensor) -> Tensor:
    """For each client the mean of all other clients' outputs; its own where there are no others.

    Args:
        outputs: The clients' outputs, N×samples×classes.
    """
    if len(outputs) == 1:
        return outputs
    return (outputs.sum(0) - outputs) / (len(outputs) - 1)


def mix_with_others(outputs: Tensor, alpha: Tensor) -> Tensor:
    """Scheme B: the mean of the clients' outputs, each mixed with the mean of the others.

    Args:
        outputs: The clients' outputs, N×samples×classes.
        alpha: Their ratios, of the same shape.
    """
    return mix(means_of_others(outputs), outputs, alpha).mean(0)
