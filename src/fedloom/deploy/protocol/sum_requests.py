"""How the phases of a sum travel: beside the tensors of a request are what everybody knows of the sum, the name of the
phase, and what the server's half sends to this client.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fedloom.deploy.protocol.wire import RejectedMessage, SiteRequest
from fedloom.registry.nested_keys import select_prefix
from fedloom.secure.sum_step import SumSession

IDS, MOST, START, PHASE, GOT = "sum/ids", "sum/most", "sum/message", "sum/stage", "got/"


def sum_tensors(session: SumSession, phase: str, got: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a request that belong to a sum.

    Args:
        session: What is known of the sum.
        got: What the client gets in it.
    """
    named = {f"{GOT}{name}": tensor for name, tensor in got.items()}
    letters, start = (torch.tensor(list(text), dtype=torch.uint8) for text in (phase.encode(), session.message))
    about = {IDS: torch.tensor(session.ids), MOST: torch.tensor(session.most), START: start, PHASE: letters}
    return about | named


def read_sum(request: SiteRequest, tensors: Mapping[str, Tensor]) -> tuple[SumSession, str, dict[str, Tensor]]:
    """The sum that a request belongs to, the name of its phase, and what the client gets in it."""
    try:
        ids, most = tensors[IDS], tensors[MOST]
        if ids.dtype != torch.int64 or ids.dim() != 1 or most.dtype != torch.int64 or int(most) < 1:
            raise ValueError("other numbers are expected")
        start, phase = (bytes(tensors[name].tolist()) for name in (START, PHASE))
        name = phase.decode("ascii")
    except (KeyError, ValueError, TypeError, RuntimeError):
        raise RejectedMessage("it says nothing valid about the sum that it belongs to") from None
    session = SumSession(request.run, request.round, request.turn, tuple(ids.tolist()), int(most), start)
    return session, name, select_prefix(tensors, GOT)
