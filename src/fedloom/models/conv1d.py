"""A network for multi-channel signals of shape (channels, steps), such as a phone's motion sensors."""

from __future__ import annotations

from torch import nn

from fedloom.models.chain import Shape, chain, dense, flat_size
from fedloom.models.model_kind import takes_signals


@takes_signals(16)
def conv1d(input_shape: Shape, classes: int) -> nn.Sequential:
    """Two convolutions of width 5 over time, each pooled by 4, then a linear layer of 64 (UCI HAR: 9×128)."""
    layers: list[nn.Module] = [
        *(nn.Conv1d(input_shape[0], 32, 5, padding=2), nn.ReLU(), nn.MaxPool1d(4)),
        *(nn.Conv1d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool1d(4)),
        nn.Flatten(),
    ]
    layers += dense(flat_size(layers, input_shape), (64,))
    return chain(layers, nn.Linear(64, classes))
