"""Top-k sparsification: a client sends the largest entries of its update and their positions.

With error feedback a client adds what it could not send, ``e <- (u + e) - topk(u + e)``, to its next update: nothing is
lost for ever, only late.

Stich, Cordonnier and Jaggi, Sparsified SGD with Memory, NeurIPS 2018, https://arxiv.org/abs/1809.07599; Karimireddy et
al., Error Feedback Fixes SignSGD and other Gradient Compression Schemes, ICML 2019, https://arxiv.org/abs/1901.09847.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.channel_step import ChannelStep, Extras, Sender
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task


@dataclass(frozen=True)
class TopK(ChannelStep):
    """Send the largest entries of an update by magnitude, and their positions.

    Args:
        fraction: The share of the entries that is sent; at least one entry is.
        error_feedback: Whether clients add what they did not send to their next update.
    """

    fraction: float = 0.1
    error_feedback: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise FedloomError(f"topk: fraction={self.fraction}: the share sent must be above 0 and at most 1.")

    def check(self, algorithm: Algorithm, task: Task, before: tuple[ChannelStep, ...]) -> None:
        """Refuse error feedback behind a step that sends other entries in every round."""
        width = task.layout.width
        if self.error_feedback and any(step.width(width) != width for step in before):
            raise FedloomError(
                "topk with error feedback keeps what it did not send by position, and a step before it changes the "
                "positions: put topk first, or set error_feedback=false."
            )

    def width(self, width: int) -> int:
        """How many entries are sent."""
        return max(1, math.ceil(self.fraction * width - 1e-9))

    def encode(self, rows: Tensor, sender: Sender) -> tuple[Tensor, Extras]:
        """The largest entries in the order of their positions."""
        if self.error_feedback:
            rows = rows + sender.kept_rows("error", torch.zeros_like(rows))
        places = rows.abs().topk(self.width(rows.shape[1]), dim=1).indices.sort(dim=1).values
        if self.error_feedback:
            sender.keep("error", rows.scatter(1, places, 0.0))
        return rows.gather(1, places), {"positions": places.int()}

    def decode(self, rows: Tensor, extras: Extras, width: int) -> Tensor:
        """Rows with zeros where nothing was sent."""
        places = extras["positions"].long()
        if bool((places < 0).any()) or bool((places >= width).any()) or bool((places.diff(dim=1) <= 0).any()):
            raise ValueError(f"positions must ascend from 0 to at most {width - 1:,}")
        return rows.new_zeros(len(rows), width).scatter(1, places, rows)
