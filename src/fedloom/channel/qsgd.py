"""QSGD: every entry is rounded at random to one of a few levels, so that its mean is the entry.

With b bits there are levels ``N j/s`` for j = -s, ..., s, where N is the largest magnitude of a chunk of entries and
``s = 2^(b-1) - 1``; with one bit there are two, ``-N`` and ``N`` (s = 1/2). An entry goes to one of its two neighbours,
with probabilities by its distances: ``E[decode(encode(u))] = u``. No entry is off by a level or more,
``|decode(encode(u)) - u| < N/s`` (at one bit: at most 2 N), and ``E||decode(encode(u)) - u||^2 <= d N^2 / (4 s^2)``.

Alistarh et al., QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding, NeurIPS 2017,
https://arxiv.org/abs/1610.02132. The theorem there has the 2-norm in the place of N; its experiments have the largest
magnitude of chunks, as here. Codes have a fixed length; there is no Elias coding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Le
from torch import Tensor

from fedloom.channel.arrival_check import check_rows, extra_rows
from fedloom.channel.bit_packing import pack_codes, packed_width, unpack_codes
from fedloom.core.channel_step import ChannelStep, Extras, Sender
from fedloom.core.settings import Count


@dataclass(frozen=True)
class QSGD(ChannelStep):
    """Send each entry as one of a few levels, rounded at random, in b bits, and the largest magnitude of each chunk.

    Args:
        bits: The bits of an entry, 1 to 8.
        chunk: How many entries share a largest magnitude.
    """

    bits: Annotated[int, Ge(1), Le(8)] = 4
    chunk: Count = 512

    is_last: ClassVar[bool] = True
    codes_statistics: ClassVar[bool] = True

    @property
    def levels(self) -> float:
        """The levels above zero; half a level stands for two levels without zero between them."""
        return max((1 << (self.bits - 1)) - 1, 0.5)

    def width(self, width: int) -> int:
        """How many bytes the packed entries take."""
        return packed_width(width, self.bits)

    def encode(self, rows: Tensor, sender: Sender) -> tuple[Tensor, Extras]:
        """The numbers of the levels, packed, and the chunks' largest magnitudes."""
        chunks = torch.nn.functional.pad(rows, (0, -rows.shape[1] % self.chunk)).view(len(rows), -1, self.chunk)
        norms = chunks.abs().amax(2)
        shares = chunks / torch.where(norms > 0, norms, 1.0).unsqueeze(2)
        place = (shares * self.levels + self.levels).reshape(len(rows), -1)[:, : rows.shape[1]]  # 0 to 2 s
        draws = [torch.rand(rows.shape[1], generator=sender.generator(client)) for client in range(len(rows))]
        below = place.floor()
        codes = below + (torch.stack(draws) < place - below)
        return pack_codes(codes.to(torch.uint8), self.bits), {"norms": norms}

    def decode(self, rows: Tensor, extras: Extras, width: int) -> Tensor:
        """The levels themselves."""
        check_rows(rows, torch.uint8, self.width(width))
        norms = extra_rows(extras, "norms", torch.float32, -(-width // self.chunk), len(rows))
        codes = unpack_codes(rows, self.bits, width)
        if bool((norms < 0).any()) or bool((codes > 2 * self.levels).any()):
            raise ValueError("a largest magnitude is negative, or a level is above the highest")
        signed = (codes.float() - self.levels) / self.levels
        return signed * norms.repeat_interleave(self.chunk, dim=1)[:, :width]
