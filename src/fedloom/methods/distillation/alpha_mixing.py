"""The mixing ratios alpha of FedFMRL: a number in [0, 1) for every communal sample and class.

Two outputs are mixed to ``LA = (1 - alpha) * anchor + alpha * partner`` (equation 6.4 of the thesis). Alpha is drawn
from a Gaussian, learned from there, or found in closed form. Learning lowers

    L(alpha) = -1/M * sum_m sum_k LA_mk * log p_mk + c_n * |alpha|_F      (equation 6.6)

where M counts samples and p are the server's probabilities. There are three readings of the first term (``AlphaLoss``):

- ``softmax``: a cross-entropy is between distributions, so LA stands for ``softmax(LA)``. This is the default.
- ``server-label``: the authors' code takes the cross-entropy of ``softmax(LA)`` to the server's label, argmax p.
- ``raw``: LA are outputs, as they are printed. **L is then linear in alpha but for the norm, and -log p is never
  negative**: with c_n = 0 it is least where each entry of LA is the smaller one of anchor and partner, whatever the
  server thinks of them. It is here to be held against the other two.

The gradient has the factor 1/M, so that plain SGD hardly moves alpha; Adam moves every entry by its rate, also where
the gradient is next to nothing: which way is then a matter of rounding, so that two executions may differ by percents.

The closed form is that of ALFA-Mix (Parvaneh et al., Active Learning by Feature Mixing, CVPR 2022,
https://arxiv.org/abs/2203.07034). The thesis does not say whose gradient it takes: here it is that of the first term
of L at the anchor, downhill, so that closed form and learning have the same aim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import torch
from torch import Tensor

AlphaOptimizer = Literal["adam", "sgd"]
AlphaLoss = Literal["softmax", "server-label", "raw"]
SMALLEST = 1e-8
"""The least alpha that is drawn, as in the code of ALFA-Mix."""
BELOW_ONE = 1 - 2**-24
"""The largest float32 below one: alpha lies in [0, 1)."""
BETA_1, BETA_2 = 0.9, 0.999
"""The usual decays of Adam (Kingma and Ba, ICLR 2015). It is written out here: torch's own loads its compiler first,
for two seconds."""


def mix(anchor: Tensor, partner: Tensor, alpha: Tensor) -> Tensor:
    """Equation 6.4: ``(1 - alpha) * anchor + alpha * partner``, entry by entry."""
    return (1 - alpha) * anchor + alpha * partner


def draw_alpha(shape: torch.Size, a_cap: float, generator: torch.Generator) -> Tensor:
    """Ratios from a Gaussian whose mean and deviation are half of ``a_cap``, clamped to [1e-8, a_cap].

    Args:
        shape: The shape of the outputs that are mixed.
        a_cap: The largest ratio.
        generator: The source of randomness.
    """
    normal = torch.randn(shape, generator=generator)
    return (a_cap / 2 + a_cap / 2 * normal).clamp(SMALLEST, min(a_cap, BELOW_ONE))


def closed_form_alpha(anchor: Tensor, partner: Tensor, direction: Tensor, epsilon: float) -> Tensor:
    """ALFA-Mix: ``epsilon * |partner - anchor| / |direction| * direction / (partner - anchor)``, clipped to [0, 1).

    Unclipped, the mixed output is the anchor moved along the direction by ``epsilon`` times its distance to the
    partner. An entry in which anchor and partner agree gets 0.

    Args:
        anchor: What is moved: ...×samples×classes.
        partner: What it is mixed with.
        direction: Where each sample's output should go, as long as they are.
        epsilon: The length of the move, as a share of the distance.
    """
    apart = partner - anchor
    lengths = apart.norm(dim=-1, keepdim=True) / direction.norm(dim=-1, keepdim=True).clamp(min=SMALLEST)
    alpha: Tensor = epsilon * lengths * direction / torch.where(apart == 0, torch.inf, apart)
    return alpha.clamp(0, BELOW_ONE)


def agreement(mixed: Tensor, log_probabilities: Tensor, reading: AlphaLoss) -> Tensor:
    """How well each sample's outputs agree with the server, the first term of equation 6.6 without its minus.

    Args:
        mixed: The outputs, ...×samples×classes.
        log_probabilities: The log of the server's probabilities, samples×classes.
        reading: What the outputs stand for.
    """
    if reading == "server-label":
        labels = log_probabilities.argmax(-1, keepdim=True)
        said = mixed.log_softmax(-1)
        return said.gather(-1, labels.expand(*said.shape[:-1], 1)).squeeze(-1)
    return ((mixed if reading == "raw" else mixed.softmax(-1)) * log_probabilities).sum(-1)


def downhill(anchor: Tensor, log_probabilities: Tensor, reading: AlphaLoss) -> Tensor:
    """Where each sample's output should go, for the closed form: the slope of ``agreement`` at the anchor.

    Args:
        anchor: The outputs, ...×samples×classes.
        log_probabilities: The log of the server's probabilities, samples×classes.
        reading: What the outputs stand for.
    """
    at = anchor.detach().requires_grad_()
    (slope,) = torch.autograd.grad(agreement(at, log_probabilities, reading).sum(), at)
    return slope


def alpha_loss(
    mixed: Tensor, log_probabilities: Tensor, alpha: Tensor, c_n: float, reading: AlphaLoss = "softmax"
) -> Tensor:
    """L(alpha), equation 6.6.

    Args:
        mixed: LA, the mixed outputs: samples×classes.
        log_probabilities: The log of the server's probabilities, of the same shape.
        alpha: The ratios that made the mixed outputs.
        c_n: The weight of their norm.
        reading: What the mixed outputs stand for.
    """
    norm: Tensor = alpha.norm()
    return c_n * norm - agreement(mixed, log_probabilities, reading).mean()


def alpha_rates(epochs: int, lr: float, lr_late: float) -> list[float]:
    """The learning rate of alpha in each epoch: ``lr`` in the first two thirds of the epochs, then ``lr_late``.

    Args:
        epochs: How many epochs a mixing step has.
        lr: The rate at first.
        lr_late: The rate at the end.
    """
    return [lr if 3 * epoch < 2 * epochs else lr_late for epoch in range(epochs)]


def learn_alpha(
    alpha: Tensor,
    mixture: Callable[[Tensor], Tensor],
    teachers: Iterable[Tensor],
    rates: Iterable[float],
    *,
    c_n: float,
    optimizer: AlphaOptimizer = "adam",
    reading: AlphaLoss = "softmax",
) -> Tensor:
    """Alpha after one step down L(alpha) for each of the server's epochs; it is clipped to [0, 1) after each.

    Args:
        alpha: The ratios to start from.
        mixture: The mixed outputs that some ratios make.
        teachers: The log of the server's probabilities after each of its epochs, samples×classes.
        rates: The learning rate of each epoch.
        c_n: The weight of the norm of alpha.
        optimizer: What makes a step of a gradient.
        reading: What the mixed outputs stand for in L(alpha).
    """
    first, second = torch.zeros_like(alpha), torch.zeros_like(alpha)
    for count, (log_probabilities, rate) in enumerate(zip(teachers, rates, strict=True), start=1):
        alpha = alpha.detach().requires_grad_()
        loss = alpha_loss(mixture(alpha), log_probabilities, alpha, c_n, reading)
        (step,) = torch.autograd.grad(loss, alpha)
        if optimizer == "adam":
            first, second = BETA_1 * first + (1 - BETA_1) * step, BETA_2 * second + (1 - BETA_2) * step.square()
            step = first / (1 - BETA_1**count) / ((second / (1 - BETA_2**count)).sqrt() + SMALLEST)
        alpha = (alpha.detach() - rate * step).clamp(0, BELOW_ONE)
    return alpha
