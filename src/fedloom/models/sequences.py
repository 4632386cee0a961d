"""Models of sequences of unequal length, whose last channel is 1 at real steps and 0 at padding behind the end.

Both leave padding out wherever it could have a part, so that more padding gives the same outputs: the convolutions see
zeros behind the end, as they do behind the end of the array, and the mean is over real steps; the LSTM's answer is its
state at the last real step.
"""

from __future__ import annotations

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from fedloom.models.chain import Shape
from fedloom.models.model_kind import takes_sequences
from fedloom.models.stacked_lstm import unroll


def values_and_steps(x: Tensor) -> tuple[Tensor, Tensor]:
    """The channels, 0 at padding, and which steps are real: N × (channels + 1) × steps to N × channels and N × 1."""
    real = x[:, -1:]
    return x[:, :-1] * real, real


class SequenceConv(nn.Module):
    """Two convolutions over time, the mean over real steps, and a linear layer."""

    last_channel_marks_steps: ClassVar[bool] = True

    def __init__(self, channels: int, classes: int, width: int, window: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(channels, width, window, padding=window // 2)
        self.second = nn.Conv1d(width, width, window, padding=window // 2)
        self.head = nn.Linear(width, classes)

    def features(self, x: Tensor) -> Tensor:
        """The mean over real steps of what the convolutions give: N × width."""
        values, real = values_and_steps(x)
        seen = F.relu(self.first(values)) * real
        seen = F.relu(self.second(seen)) * real
        return seen.sum(2) / real.sum(2).clamp(min=1)

    def forward(self, x: Tensor) -> Tensor:
        """The logits of each sequence."""
        logits: Tensor = self.head(self.features(x))
        return logits


class SequenceLSTM(nn.Module):
    """An LSTM, its state at the last real step, and a linear layer."""

    last_channel_marks_steps: ClassVar[bool] = True

    def __init__(self, channels: int, classes: int, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(channels, hidden, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def features(self, x: Tensor) -> Tensor:
        """The state at the last real step: N × hidden."""
        values, real = values_and_steps(x)
        states = unroll(self.lstm, values.transpose(1, 2))
        last = real - F.pad(real[:, :, 1:], (0, 1))  # 1 where the next step is padding
        found: Tensor = (states * last.transpose(1, 2)).sum(1)
        return found

    def forward(self, x: Tensor) -> Tensor:
        """The logits of each sequence."""
        logits: Tensor = self.head(self.features(x))
        return logits


@takes_sequences
def sequence_conv(input_shape: Shape, classes: int, width: int = 64, window: int = 5) -> nn.Module:
    """Sequences of unequal length: two convolutions of width 5 over time, the mean over real steps, a linear layer."""
    return SequenceConv(input_shape[0] - 1, classes, width, 2 * (window // 2) + 1)


@takes_sequences
def sequence_lstm(input_shape: Shape, classes: int, hidden: int = 64) -> nn.Module:
    """Sequences of unequal length: an LSTM of 64, its state at the last real step, a linear layer."""
    return SequenceLSTM(input_shape[0] - 1, classes, hidden)
