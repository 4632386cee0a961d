"""How neighbours in an encrypted chain are introduced: bytes beside the tensors of a request, and in a greeting."""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.deploy.protocol.wire import RejectedMessage

INTRODUCTION, NEXT, PREVIOUS = "introduction", "relay/next", "relay/previous"
"""A site's introduction in its greeting, and those of its neighbours in a request."""


def to_tensor(data: bytes) -> Tensor:
    """Bytes as a tensor.

    Args:
        data: The bytes, at least one.
    """
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def to_bytes(tensor: Tensor) -> bytes:
    """The bytes of a tensor; ``RejectedMessage`` if it holds anything else."""
    if tensor.dtype != torch.uint8:
        raise RejectedMessage("bytes are expected where there are numbers")
    return tensor.contiguous().numpy().tobytes()
