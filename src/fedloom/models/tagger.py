"""A tagger: a class for every word of a sentence, from the word and its neighbours.

Embedding, a convolution over a window of words, and one linear layer at each word: the window network of Collobert et
al., Natural Language Processing (Almost) from Scratch, JMLR 2011, without its features made by hand.
"""

from __future__ import annotations

from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.models.chain import Shape
from fedloom.models.model_kind import takes_tokens


class Tagger(nn.Module):
    """Embedding, a convolution over a window, and every step to logits: N × steps tokens to N × steps × classes."""

    def __init__(self, vocabulary: int, classes: int, embedding: int, hidden: int, window: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.window = nn.Conv1d(embedding, hidden, window, padding=window // 2)
        self.head = nn.Linear(hidden, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """The logits of the class of each token."""
        seen = self.window(self.embedding(tokens).transpose(1, 2)).relu().transpose(1, 2)
        logits: Tensor = self.head(seen)
        return logits


@takes_tokens
def tagger(
    input_shape: Shape,  # noqa: ARG001 - any number of steps fits
    classes: int,
    vocabulary: int = 10_002,
    embedding: int = 32,
    hidden: int = 64,
    window: int = 5,
) -> nn.Module:
    """A class for every word: embeddings of 32, a convolution over windows of five words, one linear layer."""
    if window < 1 or window % 2 == 0:
        raise FedloomError(f"model 'tagger': window={window}: it must be an odd number of words.")
    return Tagger(vocabulary, classes, embedding, hidden, window)
