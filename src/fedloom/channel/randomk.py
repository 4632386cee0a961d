"""Random-k sparsification: a client sends random entries of its update, and the seed of their positions.

Without error feedback the server multiplies what arrives by d/k: ``E[decode(encode(u))] = u``, with the variance
``E||decode(encode(u)) - u||^2 = (d/k - 1) ||u||^2``. With error feedback it does not, since what is not sent comes
later; then entries arrive exactly or as zero, and the error of a round is on average ``(1 - k/d) ||u||^2``.

Wangni et al., Gradient Sparsification for Communication-Efficient Distributed Optimization, NeurIPS 2018,
https://arxiv.org/abs/1710.09854 (uniform probabilities); Stich, Cordonnier and Jaggi, Sparsified SGD with Memory,
NeurIPS 2018, https://arxiv.org/abs/1809.07599 (the memory).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedloom.channel.error_feedback import ErrorFeedback
from fedloom.channel.shared_randomness import draw_seeds, share_of
from fedloom.channel.sparse_rows import spread_random_entries, take_random_entries
from fedloom.core.channel_step import Extras, Sender
from fedloom.core.settings import PositiveShare


@dataclass(frozen=True)
class RandomK(ErrorFeedback):
    """Send random entries of an update, and the seed of their positions.

    Args:
        fraction: The share of the entries that is sent; at least one entry is.
        error_feedback: Whether clients add what they did not send to their next update. Without it the server scales
            what arrives so that its mean is the update.
    """

    fraction: PositiveShare = 0.1
    error_feedback: bool = True

    def width(self, width: int) -> int:
        """How many entries are sent."""
        return share_of(self.fraction, width)

    def compress(self, rows: Tensor, sender: Sender) -> tuple[Tensor, Extras]:
        """Random entries in the order of their positions."""
        seeds = draw_seeds(sender, len(rows))
        return take_random_entries(rows, seeds, self.width(rows.shape[1])), {"seed": seeds}

    def decode(self, rows: Tensor, extras: Extras, width: int) -> Tensor:
        """Rows with zeros where nothing was sent."""
        count = self.width(width)
        found = spread_random_entries(rows, extras, width, count)
        return found if self.error_feedback else found * (width / count)
