"""Half precision: each number of an update in 16 bits.

Rounded to nearest. ``float16`` is off by at most ``2^-11 |u|`` (``2^-25`` below its smallest normal number, 6e-5) and
ends at 65,504; ``bfloat16`` is off by at most ``2^-8 |u|`` and ends where float32 does. A number beyond the end would
be an infinity: the client's reply does not count then, as with every number that is not finite, and a warning says
why.

Micikevicius et al., Mixed Precision Training, ICLR 2018, https://arxiv.org/abs/1710.03740; Kalamkar et al., A Study of
BFLOAT16 for Deep Learning Training, 2019, https://arxiv.org/abs/1905.12322.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedloom.channel.arrival_check import check_rows
from fedloom.channel.downlink import TYPES
from fedloom.core.channel_step import ChannelStep, Extras, Sender

log = logging.getLogger("fedloom")


@dataclass(frozen=True)
class HalfPrecision(ChannelStep):
    """Send each number of an update in 16 bits.

    Args:
        type: ``float16`` is more exact, ``bfloat16`` has the range of float32.
    """

    type: Literal["float16", "bfloat16"] = "float16"

    is_last: ClassVar[bool] = True
    codes_statistics: ClassVar[bool] = True

    def encode(self, rows: Tensor, sender: Sender) -> tuple[Tensor, Extras]:
        """The rounded numbers."""
        sent = rows.to(TYPES[self.type])
        if bool((sent.isinf() & rows.isfinite()).any()):
            log.warning(
                "halfprecision: an update reaches %.3g, %s ends at %.3g, so the update does not count: use %s",
                float(rows.nan_to_num(0.0, 0.0, 0.0).abs().max()),
                self.type,
                torch.finfo(TYPES[self.type]).max,
                "type=bfloat16" if self.type == "float16" else "a lower learning rate",
            )
        return sent, {}

    def decode(self, rows: Tensor, extras: Extras, width: int) -> Tensor:
        """The numbers in single precision."""
        check_rows(rows, TYPES[self.type], width)
        return rows.float()
