"""Cells of words as sequences of tokens: 0 is padding, 1 an unknown word, the known words follow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedloom.core.errors import FedloomError

FIRST_WORD = 2


def encode_words(texts: np.ndarray, known: Sequence[str], length: int, where: str) -> np.ndarray:
    """The tokens of each cell, rows × length.

    Args:
        texts: The cells; words are separated by spaces.
        known: The words that have a token of their own.
        length: The most words that a cell may have.
        where: What an error calls the column.
    """
    place = {word: number for number, word in enumerate(known, start=FIRST_WORD)}
    found = np.zeros((len(texts), length), dtype=np.int64)
    for row, text in enumerate(texts):
        words = text.split()
        if len(words) > length:
            raise FedloomError(f"{where}, row {row + 1} has {len(words)} words, but the model takes {length} at most.")
        found[row, : len(words)] = [place.get(word, 1) for word in words]
    return found
