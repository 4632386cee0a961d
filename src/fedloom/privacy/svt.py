"""SVT: the sparse vector technique as a filter, with the semantics of the platform that the study used (NVFlare).

``delta = change / steps``; ``n = ceil(fraction d)`` entries pass. The threshold is ``tau + Lap(2 gamma / epsilon)``.
In passes over all entries that are left, entry i is accepted if ``|clip(delta_i)| + Lap(4 gamma n / epsilon_2) >=
threshold``, with new noise in every pass and ``epsilon_2 = epsilon (2 n)^(2/3)``, until n are accepted (in the last
pass a random choice of those). An accepted entry becomes ``clip(delta_i + Lap(2 gamma / noise_var))``, all others
zero, ``clip`` is to +-gamma, and the result is multiplied by ``steps``.

Where this misleads: ``noise_var`` is an inverse scale, so a **smaller** one is **more** noise. ``epsilon`` is what the
threshold spends. The comparisons are given ``epsilon_2``, which at 60 % of 60,000 entries and epsilon 0.1 is already
173, the n values that are released spend up to ``noise_var`` each, and every round spends all of it again. With the
default gamma of 1e-5 hardly anything can move.

Lyu, Su and Li, Understanding the Sparse Vector Technique for Differential Privacy, VLDB 2017,
https://arxiv.org/abs/1603.01699; Li et al., Privacy-Preserving Federated Brain Tumour Segmentation, MLMI 2019,
https://arxiv.org/abs/1910.00962.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.settings import NonNegative, Positive, PositiveShare
from fedloom.privacy.update_filter import UpdateFilter


@dataclass(frozen=True)
class SVT(UpdateFilter):
    """Let a noisy share of an update's entries pass, clipped and with noise. No sound guarantee of privacy.

    Args:
        fraction: The share of the entries that pass.
        epsilon: The budget of the threshold: less is more noise.
        noise_var: The budget of a released value, despite its name: less is more noise.
        gamma: The largest change per step that is released.
        tau: The threshold before noise.
        whole_weights: Filter the weights instead of their difference to those received.
    """

    fraction: PositiveShare = 0.6
    epsilon: Positive = 0.1
    noise_var: Positive = 1.0
    gamma: Positive = 1e-5
    tau: NonNegative = 1e-6
    whole_weights: bool = False

    def filter_changes(self, changes: Tensor, generator: torch.Generator) -> Tensor:
        """The accepted entries with noise, and zeros."""
        exact = changes.double()
        accepted = self.accepted_entries(exact, generator)
        noisy = exact[accepted] + laplace(len(accepted), 2 * self.gamma / self.noise_var, generator)
        passed = torch.zeros_like(exact)
        passed[accepted] = noisy.clamp(-self.gamma, self.gamma)
        return passed.to(changes.dtype)

    def accepted_entries(self, changes: Tensor, generator: torch.Generator) -> Tensor:
        """The positions of the accepted entries.

        The pass in which an entry exceeds the threshold is geometric, so it is drawn at once, with a random order
        inside a pass. An entry that no number of passes would let through is not accepted.

        Args:
            changes: One client's changes per step.
            generator: The client's randomness.
        """
        count = math.ceil(self.fraction * len(changes) - 1e-9)
        threshold = self.tau + float(laplace(1, 2 * self.gamma / self.epsilon, generator))
        scale = 4 * self.gamma * count / (self.epsilon * (2 * count) ** (2 / 3))
        lacking = (threshold - changes.abs().clamp(max=self.gamma)) / scale
        never = torch.where(lacking > 0, torch.log1p(-0.5 * torch.exp(-lacking.clamp(min=0))), lacking - math.log(2))
        draws = torch.rand(2, len(changes), generator=generator, dtype=torch.float64)
        passes = torch.where(never < 0, torch.ceil((1 - draws[0]).log() / never).clamp(min=1), math.inf)
        first = (passes + draws[1]).topk(count, largest=False).indices
        return first[passes[first].isfinite()]


def laplace(count: int, scale: float, generator: torch.Generator) -> Tensor:
    """Draws of Laplace's distribution around 0.

    Args:
        count: How many.
        generator: The randomness.
    """
    two = torch.empty(2, count, dtype=torch.float64).exponential_(generator=generator)
    return scale * (two[0] - two[1])
