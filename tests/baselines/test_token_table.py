"""The most frequent tag of each token, by hand."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from fedloom.baselines.token_table import MostFrequentTag, has_tokens
from fedloom.core.targets import IGNORED
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged

X = torch.tensor([[1, 2, 3], [1, 2, 0], [1, 2, 4], [5, 1, 0]])
Y = torch.tensor([[0, 1, 0], [0, 1, IGNORED], [1, 0, 2], [0, 0, IGNORED]])


def tagged() -> Task:
    parts = Ragged.of([np.array([0, 1]), np.array([2])])
    rest = Ragged.of([np.array([3]), np.zeros(0, dtype=np.int64)])
    return Task("tags", Federation({"x": X, "y": Y}, parts, rest, Ragged.empty(2), 3), nn.Embedding(6, 3))


def test_every_token_has_its_most_frequent_tag_and_new_tokens_that_of_all() -> None:
    fitted = MostFrequentTag().fit(tagged(), torch.tensor([0, 1, 2]))
    # Token 1 has tags 0, 0, 1; token 2 has 1, 1, 0; token 3 has 0; token 4 has 2; token 5 was never seen, and of all
    # counted tags 0 is the most frequent.
    assert fitted.outputs(torch.tensor([0, 2, 3])).argmax(-1)[:, :2].tolist() == [[0, 1], [0, 1], [0, 0]]
    assert fitted.outputs(torch.tensor([2])).argmax(-1)[0, 2] == 2


def test_the_table_has_a_row_per_token_that_was_seen_and_one_for_all_others() -> None:
    """A client of a vocabulary of ten thousand words has few of them."""
    assert MostFrequentTag().fit(tagged(), torch.tensor([0, 1])).table.shape == (4, 3)


def test_shares_sum_to_one() -> None:
    fitted = MostFrequentTag().fit(tagged(), torch.tensor([0, 1, 2]))
    assert torch.allclose(fitted.outputs(torch.tensor([0, 3])).exp().sum(-1), torch.ones(2, 3))


def test_tokens_are_whole_numbers_beside_the_targets() -> None:
    task = tagged()
    assert has_tokens(task)
    images = Federation(
        {"x": torch.rand(4, 3), "y": Y}, task.federation.train, task.federation.test, Ragged.empty(2), 3
    )
    assert not has_tokens(Task("numbers", images, nn.Linear(3, 3)))
