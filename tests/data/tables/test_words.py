"""Cells of words as tokens: padding, unknown words, known words."""

import numpy as np
import pytest

from fedloom.core.errors import FedloomError
from fedloom.data.tables.words import encode_words


def test_padding_is_0_and_an_unknown_word_1():
    cells = np.array(["a b c", "b"], dtype=object)
    assert encode_words(cells, ["a", "b"], 4, "text").tolist() == [[2, 3, 1, 0], [3, 0, 0, 0]]


def test_more_words_than_the_model_takes_are_refused():
    with pytest.raises(FedloomError, match="text, row 1 has 3 words, but the model takes 2 at most"):
        encode_words(np.array(["a b c"], dtype=object), ["a"], 2, "text")
