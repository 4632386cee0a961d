"""Small whole numbers packed into bytes: eight codes of b bits each become b bytes."""

from __future__ import annotations

import torch
from torch import Tensor

GROUP = 8
"""How many codes are packed together: with b bits each they fill b bytes."""


def packed_width(width: int, bits: int) -> int:
    """How many bytes a row of codes takes.

    Args:
        width: How many codes it has.
        bits: How many bits each of them has, 1 to 8.
    """
    return bits * -(-width // GROUP)


def pack_codes(codes: Tensor, bits: int) -> Tensor:
    """Rows of codes as rows of bytes; the last group is filled up with zeros.

    Args:
        codes: Rows of whole numbers of ``bits`` bits, as uint8.
        bits: How many bits each of them has, 1 to 8.
    """
    clients, width = codes.shape
    padded = torch.nn.functional.pad(codes, (0, -width % GROUP))
    if GROUP % bits == 0:  # whole codes in every byte: the same bits, without wider words
        groups = padded.view(clients, -1, GROUP // bits)
        packed = groups[:, :, 0].clone()
        for place in range(1, GROUP // bits):
            packed |= groups[:, :, place] << (bits * place)
        return packed
    groups = padded.view(clients, -1, GROUP)
    word = torch.zeros(groups.shape[:2], dtype=torch.int64)
    for place in range(GROUP):
        word |= groups[:, :, place].long() << (bits * place)
    return torch.stack([((word >> (8 * byte)) & 255).to(torch.uint8) for byte in range(bits)], dim=2).view(clients, -1)


def unpack_codes(words: Tensor, bits: int, width: int) -> Tensor:
    """Rows of codes from rows of bytes; a ``ValueError`` if what fills up the last group is not zero.

    Args:
        words: Rows of bytes, as ``pack_codes`` makes them.
        bits: How many bits each code has, 1 to 8.
        width: How many codes a row has.
    """
    mask = (1 << bits) - 1
    if GROUP % bits == 0:
        groups = torch.stack([(words >> (bits * place)) & mask for place in range(GROUP // bits)], dim=2)
    else:
        words = words.view(len(words), -1, bits)
        word = torch.zeros(words.shape[:2], dtype=torch.int64)
        for byte in range(bits):
            word |= words[:, :, byte].long() << (8 * byte)
        groups = torch.stack([((word >> (bits * place)) & mask).to(torch.uint8) for place in range(GROUP)], dim=2)
    codes = groups.view(len(words), -1)
    if bool(codes[:, width:].any()):
        raise ValueError("the bits after the last entry are not zero")
    return codes[:, :width]
