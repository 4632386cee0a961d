"""TODO: docstring."""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.core.algorithm import State


def watching(mu: float) -> State:
    """What the server remembers where mu adapts to the training loss."""
    return {"mu": torch.tensor(mu), "loss": torch.tensor(torch.inf), "falls": torch.tensor(0)}


def watched(server: State, loss: Tensor) -> State:
    """FedProx's heuristic: mu grows by 0.1 when the loss rises, and falls by 0.1 after five falls in a row."""
    fell = loss < server["loss"] < torch.inf  # the first round has nothing to fall from
    falls = server["falls"] + 1 if fell else torch.tensor(0)
    mu = server["mu"] + 0.1 if loss > server["loss"] else server["mu"]
    if falls == 5:
        mu, falls = (mu - 0.1).clamp(min=0), torch.tensor(0)
    return {"mu": mu, "loss": loss, "falls": falls}
