"""SVT: the sparse vector technique as a filter, with the two semantics that the study's platform (NVFlare) has had.

``delta = change / steps``; ``n = ceil(fraction d)`` entries pass. The threshold is ``tau + Lap(2 gamma / epsilon)``.
In passes over all entries that are left, entry i is accepted if ``|clip(delta_i)| + Lap(4 gamma n / epsilon_2) >=
threshold``, with new noise in every pass and ``epsilon_2 = epsilon (2 n)^(2/3)``, until n are accepted. An accepted
entry becomes ``clip(delta_i + Lap(2 gamma / noise_var))``, ``clip`` is to +-gamma, and the result is multiplied by
``steps``. What happens to the others is the ``semantics``:

- ``newer``: exactly n entries are released (in the last pass a random choice), and all others are zero.
- ``2.0.16``, the version that the study pins: all entries of the last pass are accepted, so that there are more than
  n; n of them are drawn **with replacement** and released; rejected entries are zero; and accepted entries that were
  not drawn **leave as they are, without clip and without noise**. With noise that drowns the comparisons, 75 % of the
  entries are accepted and 34 % of all leave raw: the update keeps 0.58 of its norm, and models learn.

**Neither is a guarantee of privacy**, and the one of 2.0.16 publishes a third of every update as it is.

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
from typing import Literal

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
        semantics: What becomes of entries that are not released: ``newer`` sets all of them to zero; ``2.0.16``, which
            the study had, draws the released ones with replacement and lets accepted ones that were not drawn pass raw.
        whole_weights: Filter the weights instead of their difference to those received.
    """

    fraction: PositiveShare = 0.6
    epsilon: Positive = 0.1
    noise_var: Positive = 1.0
    gamma: Positive = 1e-5
    tau: NonNegative = 1e-6
    whole_weights: bool = False
    semantics: Literal["newer", "2.0.16"] = "newer"

    def filter_changes(self, changes: Tensor, generator: torch.Generator) -> Tensor:
        """The released entries with noise, zeros, and with the semantics of 2.0.16 entries as they were."""
        exact = changes.double()
        passed = torch.zeros_like(exact)
        if self.semantics == "newer":
            released = self.accepted_entries(exact, generator)
        else:
            accepted = self.accepted_in_whole_passes(exact, generator)
            passed[accepted] = exact[accepted]
            released = accepted
            if len(accepted):  # an entry that is drawn twice is released once
                drawn = torch.zeros(len(accepted), dtype=torch.bool)
                drawn[torch.randint(len(accepted), (self._count(exact),), generator=generator)] = True
                released = accepted[drawn]
        noisy = exact[released] + laplace(len(released), 2 * self.gamma / self.noise_var, generator)
        passed[released] = noisy.clamp(-self.gamma, self.gamma)
        return passed.to(changes.dtype)

    def _count(self, changes: Tensor) -> int:
        """How many entries are asked for."""
        return math.ceil(self.fraction * len(changes) - 1e-9)

    def accepted_in_whole_passes(self, changes: Tensor, generator: torch.Generator) -> Tensor:
        """The positions of all entries that are accepted until there are enough: the last pass counts as a whole.

        Args:
            changes: One client's changes per step.
            generator: The client's randomness.
        """
        passes = self._passes(changes, generator)[0]
        last = passes.kthvalue(self._count(changes)).values
        return ((passes <= last) & passes.isfinite()).nonzero().squeeze(1)

    def accepted_entries(self, changes: Tensor, generator: torch.Generator) -> Tensor:
        """The positions of the accepted entries, as many as are asked for, in a random order inside a pass.

        Args:
            changes: One client's changes per step.
            generator: The client's randomness.
        """
        passes, order = self._passes(changes, generator)
        first = (passes + order).topk(self._count(changes), largest=False).indices
        return first[passes[first].isfinite()]

    def _passes(self, changes: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The pass in which each entry exceeds the threshold, and a random order.

        That pass is geometric, so it is drawn at once. It is infinite for an entry that no number of passes would let
        through.
        """
        count = self._count(changes)
        threshold = self.tau + float(laplace(1, 2 * self.gamma / self.epsilon, generator))
        scale = 4 * self.gamma * count / (self.epsilon * (2 * count) ** (2 / 3))
        lacking = (threshold - changes.abs().clamp(max=self.gamma)) / scale
        never = torch.where(lacking > 0, torch.log1p(-0.5 * torch.exp(-lacking.clamp(min=0))), lacking - math.log(2))
        draws = torch.rand(2, len(changes), generator=generator, dtype=torch.float64)
        return torch.where(never < 0, torch.ceil((1 - draws[0]).log() / never).clamp(min=1), math.inf), draws[1]


def laplace(count: int, scale: float, generator: torch.Generator) -> Tensor:
    """Draws of Laplace's distribution around 0.

    Args:
        count: How many.
        generator: The randomness.
    """
    two = torch.empty(2, count, dtype=torch.float64).exponential_(generator=generator)
    return scale * (two[0] - two[1])
