"""Recurrent language models over integer tokens.

``nn.LSTM`` keeps two bias vectors per layer where one would do; the parameter counts of the reproduced study include
both.
"""

from __future__ import annotations

from torch import Tensor, nn

from fedloom.models.chain import Shape
from fedloom.models.model_kind import takes_tokens
from fedloom.models.stacked_lstm import unroll


class CharLSTM(nn.Module):
    """Embedding, LSTM, and the last step to logits: N × steps tokens to N × classes."""

    def __init__(self, vocabulary: int, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        """The logits of the character after the last one."""
        steps = unroll(self.lstm, self.embedding(tokens))
        logits: Tensor = self.head(steps[:, -1])
        return logits


class WordLSTM(nn.Module):
    """Embedding, LSTM, projection, and every step to logits: N × steps tokens to N × steps × vocabulary.

    The projection and the output layer have no activation between them, so together they are one linear map of
    low rank: both are the head.
    """

    parts: dict[str, list[str]] = {"head": ["projection.*", "output.*"]}  # noqa: RUF012

    def __init__(self, vocabulary: int, embedding: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        self.projection = nn.Linear(hidden, embedding)
        self.output = nn.Linear(embedding, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        """The logits of the next word at each step."""
        steps = unroll(self.lstm, self.embedding(tokens))
        logits: Tensor = self.output(self.projection(steps))
        return logits


@takes_tokens
def char_lstm(
    input_shape: Shape,  # noqa: ARG001 - any number of steps fits
    classes: int,
    embedding: int = 8,
    hidden: int = 100,
    layers: int = 2,
) -> nn.Module:
    """Next character of Shakespeare: two LSTM layers of 100 over embeddings of 8; 133,520 parameters.

    The Shakespeare model of FedSeq (Zaccone et al., ICPR 2022), after LEAF (Caldas et al., 2018); the count is for
    80 characters.
    """
    return CharLSTM(classes, embedding, hidden, layers)


@takes_tokens
def word_lstm(
    input_shape: Shape,  # noqa: ARG001 - any number of steps fits
    classes: int,
    embedding: int = 96,
    hidden: int = 670,
) -> nn.Module:
    """Next word of Stack posts at each step: one LSTM layer of 670 over embeddings of 96; 4,053,428 parameters.

    The StackOverflow model of FedSeq's thesis, after Reddi et al., Adaptive Federated Optimization, ICLR 2021. The
    count is for 10,000 words and four special tokens; the window is 20 tokens.
    """
    return WordLSTM(classes, embedding, hidden)
