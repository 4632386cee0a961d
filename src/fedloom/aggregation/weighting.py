"""How much each client of a round counts in an average."""

from __future__ import annotations

import torch
from torch import Tensor

WEIGHTINGS = {
    "samples": "by each client's number of training samples",
    "steps": "by the local gradient steps a client made this round",
    "uniform": "every selected client alike",
}


def weights(by: str, samples: Tensor, steps: Tensor) -> Tensor:
    """The weights of a round's clients; they sum to one."""
    raw = {"samples": samples, "steps": steps, "uniform": torch.ones_like(samples)}[by].double()
    if raw.sum() == 0:  # nobody made a step: the rows are all alike
        raw = torch.ones_like(raw)
    return (raw / raw.sum()).float()
