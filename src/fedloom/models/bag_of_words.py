"""A bag of words: the sum of the vectors of a text's n words over the root of n, and one linear layer.

Joulin et al., Bag of Tricks for Efficient Text Classification, EACL 2017, https://arxiv.org/abs/1607.01759, without its
pairs of words. They take the mean; over the root of n, features of long texts are as large as those of short ones, and
plain SGD learns several times faster. Token 0 is padding and has no part in the sum, so that a text means the same
however long others are.
"""

from __future__ import annotations

from torch import Tensor, nn

from fedloom.models.chain import Shape
from fedloom.models.model_kind import takes_tokens

PADDING = 0
SPREAD = 0.3
"""The standard deviation of the initial vectors: with torch's 1, words that are seen once are noise for long."""


class BagOfWords(nn.Module):
    """The sum of embeddings over the root of their number, and a linear layer: N × steps tokens to N × classes."""

    def __init__(self, vocabulary: int, classes: int, embedding: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        nn.init.normal_(self.embedding.weight, std=SPREAD)
        self.head = nn.Linear(embedding, classes)

    def features(self, tokens: Tensor) -> Tensor:
        """What the head sees of the words that are no padding, N × embedding; 0 for an empty text."""
        real = (tokens != PADDING).unsqueeze(-1).to(self.embedding.weight.dtype)
        found: Tensor = (self.embedding(tokens) * real).sum(1) / real.sum(1).clamp(min=1).sqrt()
        return found

    def forward(self, tokens: Tensor) -> Tensor:
        """The logits of the class of each text."""
        logits: Tensor = self.head(self.features(tokens))
        return logits


@takes_tokens
def bag_of_words(
    input_shape: Shape,  # noqa: ARG001 - any number of steps fits
    classes: int,
    vocabulary: int = 10_002,
    embedding: int = 32,
) -> nn.Module:
    """A class of a text: the sum of its words' embeddings of 32 over the root of their number, one linear layer."""
    return BagOfWords(vocabulary, classes, embedding)
