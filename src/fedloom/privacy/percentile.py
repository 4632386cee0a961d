"""Percentile privacy: the small entries of an update become zero, the others are clipped; there is no noise.

``delta = change / steps``; every ``|delta_i|`` below the given percentile of ``|delta|`` becomes 0, the rest is
clipped to +-gamma, and the result is multiplied by ``steps``. So no entry of an update exceeds ``gamma * steps``, and
at least the given percentage of them is zero or at the cutoff. Nothing random: it **guarantees no differential
privacy** whatsoever, and what it lets through is the truth.

Shokri and Shmatikov, Privacy-Preserving Deep Learning, CCS 2015, https://doi.org/10.1145/2810103.2813687, from which
NVFlare's filter of this name is derived, without the noise of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from annotated_types import Ge, Le
from torch import Tensor

from fedloom.core.settings import Positive
from fedloom.privacy.update_filter import UpdateFilter


@dataclass(frozen=True)
class Percentile(UpdateFilter):
    """Let the largest entries of an update pass, clipped. No guarantee of privacy.

    Args:
        percentile: Entries whose magnitude is below this percentile become zero.
        gamma: The largest change per step that passes.
        whole_weights: Filter the weights instead of their difference to those received.
    """

    percentile: Annotated[float, Ge(0), Le(100)] = 10.0
    gamma: Positive = 0.01
    whole_weights: bool = False

    def filter_changes(self, changes: Tensor, generator: torch.Generator) -> Tensor:
        """The large entries, clipped, and zeros."""
        cutoff = float(np.percentile(changes.abs().numpy(), self.percentile))
        return torch.where(changes.abs() < cutoff, 0.0, changes.clamp(-self.gamma, self.gamma))
