"""CMFL: a client sends its update only if it goes where the shared model went last.

The relevance of an update u is the share of its entries with the sign of the last global update g:

    ``e(u, g) = 1/N * #{ j : sign(u_j) = sign(g_j) }``

A client with ``e(u, g) < threshold`` sends one flag instead of its update. It knows g without being told: it is the
difference between the model that it got now and the one before, of a round or of several if it was not asked in
between. A client that has no g yet sends, and so does everyone if the model stood still: a round in which nobody was
relevant is followed by one in which all send.

Wang, Wang and Li, CMFL: Mitigating Communication Overhead for Federated Learning, ICDCS 2019,
https://doi.org/10.1109/ICDCS.2019.00099.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.channel_step import ChannelStep, Sender
from fedloom.core.settings import PositiveShare


@dataclass(frozen=True)
class CMFL(ChannelStep):
    """Send an update only if enough of its entries have the sign of the last global update.

    Args:
        threshold: The least share of such entries.
    """

    threshold: PositiveShare = 0.5

    may_be_silent: ClassVar[bool] = True

    def silent(self, rows: Tensor, origin: Tensor, sender: Sender) -> Tensor:
        """The clients whose update is less relevant than the threshold."""
        received = origin.expand_as(rows)
        moved = received - sender.kept_rows("received", received)
        sender.keep("received", received)
        relevance = (rows.sign() == moved.sign()).sum(1) / rows.shape[1]
        return (relevance < self.threshold) & (moved != 0).any(1) & torch.isfinite(rows).all(1)
