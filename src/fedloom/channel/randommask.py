"""Random-mask structured updates: an update is zero outside a random mask, which is a seed.

The mask is new for every client and round. In the paper clients train inside the mask; here the update is projected on
it after training (least squares: the entries in the mask stay, the others become zero), since a channel sees
only the result. So on average ``decode(encode(u))`` is ``k/d u`` and the server's step is that much shorter; a server
optimiser with ``lr = d/k`` makes up for it, and ``randomk`` does so by itself. Entries in the mask are exact.

Konečný et al., Federated Learning: Strategies for Improving Communication Efficiency, 2016,
https://arxiv.org/abs/1610.05492, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedloom.channel.shared_randomness import draw_seeds, share_of
from fedloom.channel.sparse_rows import spread_random_entries, take_random_entries
from fedloom.core.channel_step import ChannelStep, Extras, Sender
from fedloom.core.settings import PositiveShare


@dataclass(frozen=True)
class RandomMask(ChannelStep):
    """Send the entries of an update inside a random mask, and the mask's seed; the others count as zero.

    Args:
        fraction: The share of the entries inside the mask; at least one is.
    """

    fraction: PositiveShare = 0.25

    def width(self, width: int) -> int:
        """How many entries are inside the mask."""
        return share_of(self.fraction, width)

    def encode(self, rows: Tensor, sender: Sender) -> tuple[Tensor, Extras]:
        """The entries inside the mask in the order of their positions."""
        seeds = draw_seeds(sender, len(rows))
        return take_random_entries(rows, seeds, self.width(rows.shape[1])), {"seed": seeds}

    def decode(self, rows: Tensor, extras: Extras, width: int) -> Tensor:
        """Rows with zeros outside the mask."""
        return spread_random_entries(rows, extras, width, self.width(width))
