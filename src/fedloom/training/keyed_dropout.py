"""Dropout that belongs to a client.

A mask is a pure function of (client's key, step, layer, position): a counter-based hash in the manner of Salmon et
al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011. There is no generator state, so a client drops the same
units whether it trains alone, beside others, in another process or compiled.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from fedloom.core.seeds import key

_MASK = (1 << 32) - 1
_SIGN = 1 << 31


def _mix(x: Tensor) -> Tensor:
    """A 32-bit finaliser (odd 31-bit multipliers, so that products stay below 2**63)."""
    x = ((x ^ (x >> 16)) * 0x45D9F3B) & _MASK
    x = ((x ^ (x >> 15)) * 0x2C1B3C6D) & _MASK
    return x ^ (x >> 16)


def client_key(seed: int, round_number: int, client: int) -> int:
    """The key of a client's dropout in one training."""
    return key(seed, "dropout", round_number, client) & _MASK


def step_key(keys: Tensor, step: int | Tensor) -> Tensor:
    """The key of one training step, from a client's key of the training."""
    return _mix((keys + step * 0x9E3779B1) & _MASK)


def _mix_words(x: Tensor) -> Tensor:
    """The same finaliser for many numbers, in place, as 32-bit words: their products wrap and lose no bit."""
    for shift, factor in ((16, 0x45D9F3B), (15, 0x2C1B3C6D)):
        x = x.bitwise_xor_((x >> shift).bitwise_and_((1 << (32 - shift)) - 1)).mul_(factor)
    return x.bitwise_xor_((x >> 16).bitwise_and_(0xFFFF))


class KeyedDropout(nn.Module):
    """Dropout whose mask is a function of ``noise_key``; it stands in for ``nn.Dropout`` while a client trains."""

    noise_key: Tensor

    def __init__(self, p: float, layer: int) -> None:
        super().__init__()
        self.p, self.layer, self.turn = p, layer, 0
        self.register_buffer("noise_key", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Zero each unit of ``x`` with probability p, and scale the rest by 1 / (1 - p)."""
        if not self.training or self.p == 0:
            return x
        self.turn += 1  # a layer that a model uses twice drops other units the second time
        return self.drop(x, self.noise_key, self.turn - 1)

    def drop(self, x: Tensor, keys: Tensor, turn: int = 0) -> Tensor:
        """The same for given keys: a number, or one per client when ``x`` is clients × batch × ..."""
        if self.p == 1:
            return x * 0
        shape = x.shape[keys.dim() :]
        units = torch.arange(shape.numel(), dtype=torch.int32).mul_(0x61C88647).view(shape)
        start = _mix((keys + self.layer * 0x85EBCA6B + turn * 0x27D4EB2F) & _MASK).to(torch.int32)
        draws = _mix_words(start.view(*start.shape, *[1] * len(shape)) + units).bitwise_xor_(-_SIGN)
        kept = draws >= int(self.p * (1 << 32)) - _SIGN  # as unsigned numbers: their sign bit is turned
        return x * kept.to(x.dtype).div_(1 - self.p)


def rewind(model: nn.Module) -> None:
    """Begin a new pass: every dropout layer's next use is its first."""
    for layer in model.modules():
        if isinstance(layer, KeyedDropout):
            layer.turn = 0


def with_keyed_dropout(model: nn.Module) -> nn.Module:
    """A copy of a model in which every ``nn.Dropout`` is keyed by client."""
    model = copy.deepcopy(model)
    found = [
        (owner, name, child)
        for owner in list(model.modules())
        for name, child in owner._modules.items()
        if type(child) is nn.Dropout
    ]
    for layer, (owner, name, child) in enumerate(found):
        setattr(owner, name, KeyedDropout(child.p, layer))
    return model
