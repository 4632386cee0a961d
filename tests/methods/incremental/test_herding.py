"""Herding by hand, and its invariants."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedloom.methods.incremental.herding import exemplars, herd


def test_by_hand():
    """Numbers 0, 1, 5, 6 with mean 3: 1 and 5 are equally near, the first wins; then (1+5)/2 is 3; then 0 or 6."""
    features = torch.tensor([[0.0], [1.0], [5.0], [6.0]])
    assert herd(features, 1).tolist() == [1]
    assert herd(features, 2).tolist() == [1, 2]
    assert herd(features, 3).tolist() == [1, 2, 0]  # (1 + 5 + 0) / 3 = 2 and (1 + 5 + 6) / 3 = 4: equally near
    assert sorted(herd(features, 9).tolist()) == [0, 1, 2, 3]


@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 9))
def test_each_sample_is_taken_once_and_the_first_of_a_longer_list_are_the_shorter_one(samples, count, seed):
    features = torch.randn(samples, 3, generator=torch.Generator().manual_seed(seed))
    chosen = herd(features, count).tolist()
    assert len(set(chosen)) == len(chosen) == min(samples, count)
    assert herd(features, max(1, count // 2)).tolist() == chosen[: max(1, count // 2)]


def test_their_mean_is_nearer_than_that_of_random_ones():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(200, 8, generator=generator)
    apart = (features[herd(features, 10)].mean(0) - features.mean(0)).norm()
    draws = [features[torch.randperm(200, generator=generator)[:10]].mean(0) for _ in range(50)]
    others = [(mean - features.mean(0)).norm() for mean in draws]
    assert apart < 0.5 * min(others)


def test_classes_share_the_exemplars_evenly():
    labels = torch.tensor([3, 1, 1, 3, 3, 1, 7, 3])
    features = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    chosen = exemplars(features, labels, 5)  # 2 of class 1, 2 of class 3, and the only one of class 7
    assert chosen.tolist() == sorted(chosen.tolist())
    assert labels[chosen].sort().values.tolist() == [1, 1, 3, 3, 7]
    assert exemplars(features, labels, 100).tolist() == list(range(8))


def test_features_have_length_one():
    """By direction the second is nearest to the mean of (1, 0), (0.8, 0.6), (0, 1); by length the long first one is."""
    features = torch.tensor([[100.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    assert exemplars(features, torch.zeros(3, dtype=torch.int64), 1).tolist() == [1]
    assert exemplars(features * torch.tensor([[1.0], [9.0], [5.0]]), torch.zeros(3).long(), 1).tolist() == [1]
