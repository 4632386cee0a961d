"""The tagger: a class per word, from the word and its neighbours."""

import pytest
import torch

from fedloom.core.errors import FedloomError
from fedloom.models import build


def test_a_word_depends_on_its_window_and_on_nothing_else():
    model = build("tagger", (9,), 4, 0, vocabulary=30)
    tokens = torch.randint(30, (2, 9))
    before = model(tokens)
    assert before.shape == (2, 9, 4)
    tokens[:, 0] = (tokens[:, 0] + 1) % 30
    changed = (model(tokens) != before).any(-1).any(0)
    assert changed.tolist() == [True] * 3 + [False] * 6


def test_an_even_window_is_refused():
    with pytest.raises(FedloomError, match="window=4"):
        build("tagger", (9,), 4, 0, window=4)
