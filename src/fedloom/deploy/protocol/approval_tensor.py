"""The approval of a run on its way to a site: the bytes of ``approval.json`` beside the tensors of every request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fedloom.deploy.protocol.relay_requests import to_bytes, to_tensor
from fedloom.deploy.protocol.wire import RejectedMessage
from fedloom.files.json_text import parse_json

APPROVAL_TENSOR = "approval"
LARGEST = 1 << 20
"""Most bytes of an approval: it names the sites."""


def approval_tensors(approval: Mapping[str, Any]) -> dict[str, Tensor]:
    """What goes with a request of an approved run; nothing if there is no approval.

    Args:
        approval: The content of ``approval.json``.
    """
    return {APPROVAL_TENSOR: to_tensor(json.dumps(approval).encode())} if approval else {}


def take_approval(tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Take the approval out of a request's tensors; empty if there is none, or nothing that could be one."""
    tensor = tensors.pop(APPROVAL_TENSOR, None)
    if tensor is None or tensor.numel() > LARGEST:
        return {}
    try:
        found = parse_json(to_bytes(tensor))
    except (RejectedMessage, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
