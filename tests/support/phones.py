"""Small data with two input columns: an accelerometer and a gyroscope, and one tensor of the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import fedloom as fl
from fedloom.core.task import Task

COLUMNS = {"accelerometer": 4, "gyroscope": 3}
CLASSES = 3


def arrays(samples: int = 120) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Columns by name, labels that both columns are needed for, and the phone of each sample."""
    numbers = np.random.default_rng(3)
    x = {name: numbers.normal(1.5, 2.0, (samples, width)).astype(np.float32) for name, width in COLUMNS.items()}
    y = (x["accelerometer"][:, 0] > 1.5).astype(np.int64) + (x["gyroscope"][:, 0] > 1.5)
    return x, y, numbers.choice(4, samples, p=[0.4, 0.3, 0.2, 0.1])


def write(path: Path, samples: int = 120, **more: Any) -> Path:
    """The same data as an NPZ file with an array per column."""
    x, y, phone = arrays(samples)
    np.savez(path, **{**x, "y": y, "client": phone, **more})
    return path


class TwoStreams(nn.Module):
    """A branch per column, and a head over both."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(2)
            self.accelerometer, self.gyroscope = nn.Linear(4, 6), nn.Linear(3, 5)
            self.drop = nn.Dropout(dropout)
            self.head = nn.Linear(11, CLASSES)

    def features(self, x: dict[str, Tensor]) -> Tensor:
        both = self.accelerometer(x["accelerometer"]), self.gyroscope(x["gyroscope"])
        dropped: Tensor = self.drop(torch.cat(both, -1).tanh())
        return dropped

    def forward(self, x: dict[str, Tensor]) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits


def federation(**options: Any) -> fl.Federation:
    """Four phones with two input columns."""
    x, y, phone = arrays()
    return fl.from_arrays(x, y, phone, **options)


def task(dropout: float = 0.0, **options: Any) -> Task:
    """Four phones and a network with a branch per column."""
    return fl.task_of(federation(**options), TwoStreams(dropout), name="phones")


def joined_federation(**options: Any) -> fl.Federation:
    """The same phones with one tensor."""
    x, y, phone = arrays()
    return fl.from_arrays(np.concatenate(list(x.values()), 1), y, phone, **options)
