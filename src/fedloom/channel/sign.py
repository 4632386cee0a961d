"""Scaled signs: one bit per entry, and the mean magnitude of the row.

``C(p) = (||p||_1 / d) sign(p)``, where the sign of zero is plus. The error is ``||p - C(p)||^2 = ||p||_2^2 -
||p||_1^2 / d``; error feedback sends it later. Without error feedback this is signSGD with a scale, which need not
converge.

Karimireddy et al., Error Feedback Fixes SignSGD and other Gradient Compression Schemes, ICML 2019,
https://arxiv.org/abs/1901.09847; Bernstein et al., signSGD, ICML 2018, https://arxiv.org/abs/1802.04434.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.channel.arrival_check import check_rows, extra_rows
from fedloom.channel.bit_packing import pack_codes, packed_width, unpack_codes
from fedloom.channel.error_feedback import ErrorFeedback
from fedloom.core.channel_step import Extras, Sender


@dataclass(frozen=True)
class Sign(ErrorFeedback):
    """Send the sign of each entry in one bit, and the mean magnitude of all.

    Args:
        error_feedback: Whether clients add what they did not send to their next update.
    """

    error_feedback: bool = True

    is_last: ClassVar[bool] = True

    def width(self, width: int) -> int:
        """How many bytes the packed signs take."""
        return packed_width(width, 1)

    def compress(self, rows: Tensor, sender: Sender) -> tuple[Tensor, Extras]:
        """The signs, packed, and the scale."""
        return pack_codes((rows >= 0).to(torch.uint8), 1), {"scale": rows.abs().mean(1, keepdim=True)}

    def decode(self, rows: Tensor, extras: Extras, width: int) -> Tensor:
        """The signs times the scale."""
        check_rows(rows, torch.uint8, self.width(width))
        scale = extra_rows(extras, "scale", torch.float32, 1, len(rows))
        if bool((scale < 0).any()):
            raise ValueError("the scale is negative")
        return (unpack_codes(rows, 1, width).float() * 2 - 1) * scale
