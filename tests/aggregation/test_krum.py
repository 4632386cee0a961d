"""Krum and Multi-Krum: by hand, against the definition, and what one hostile client can do."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import fedloom.aggregation.krum as module
from fedloom.aggregation.krum import Krum, MultiKrum, krum_scores, squared_distances
from fedloom.core.errors import FedloomError
from support.aggregations import aggregate, honest_rows

LINE = [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [4.0, 0.0], [50.0, 0.0]]
"""Five clients, one of them (f = 1) hostile: each has 5 - 1 - 2 = 2 neighbours that count."""


def test_scores_by_hand():
    places = torch.tensor([0.0, 1.0, 2.0, 4.0, 50.0])
    scores = krum_scores((places[:, None] - places).square(), hostile=1)
    assert scores.tolist() == [1 + 4, 1 + 1, 1 + 4, 4 + 9, 46**2 + 48**2]


def test_krum_takes_the_row_with_the_lowest_score():
    assert aggregate(Krum(share=0.2), LINE).tolist() == [1.0, 0.0]


def test_multi_krum_averages_the_rows_with_the_lowest_scores():
    assert aggregate(MultiKrum(share=0.2), LINE).tolist() == [(0 + 1 + 2 + 4) / 4, 0.0]
    assert aggregate(MultiKrum(share=0.2, chosen=2), LINE).tolist() == [0.5, 0.0]  # 0 and 2 have the same score
    assert aggregate(MultiKrum(share=0.2, chosen=1), LINE).tolist() == aggregate(Krum(share=0.2), LINE).tolist()


def by_definition(rows: torch.Tensor, hostile: int) -> int:
    """The place that the paper's formula gives, in loops."""
    scores = []
    for i, row in enumerate(rows):
        others = sorted(float((row - other).double().square().sum()) for j, other in enumerate(rows) if j != i)
        scores.append(sum(others[: len(rows) - hostile - 2]))
    return scores.index(min(scores))


@given(st.integers(5, 12), st.integers(1, 40), st.integers(0, 1000))
def test_it_is_the_definition(clients, width, seed):
    rows, rule = honest_rows(clients, width, seed) + 100, Krum(share=0.2)
    assert torch.equal(aggregate(rule, rows), rows[by_definition(rows, int(0.2 * clients + 1e-9))])


@given(st.floats(-1e4, 1e4).filter(lambda x: abs(x) > 20), st.integers(0, 500))
def test_a_hostile_row_that_stands_apart_is_never_taken(value, seed):
    rows = torch.cat([honest_rows(6, 4, seed), torch.full((1, 4), value)])
    assert aggregate(Krum(share=0.15), rows).abs().max() < 10
    assert aggregate(MultiKrum(share=0.15), rows).abs().max() < 10


def test_buckets_average_before_the_rule():
    rows = torch.tensor([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0], [8.0]])
    found = aggregate(Krum(share=0.0, bucket=8), rows)
    assert found.tolist() == [4.5]
    assert float(aggregate(MultiKrum(share=0.0, chosen=4, bucket=2), rows)) == pytest.approx(4.5)


@pytest.mark.parametrize(
    ("share", "bucket", "clients"),
    [(0.0, 1, 3), (0.2, 1, 5), (0.3, 1, 5), (0.4, 1, 7), (0.2, 2, 13)],  # 13 clients in 7 buckets, 2 of them hostile
)
def test_it_needs_twice_the_hostile_and_three(share, bucket, clients):
    assert Krum(share=share, bucket=bucket).least_clients == clients


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"share": 0.5}, "below 0.5"),
        ({"share": -0.1}, "at least 0"),
        ({"share": 0.3, "bucket": 2}, "with buckets of 2 that share counts 2 times"),
        ({"bucket": 0}, "bucket=0: it must be at least 1"),
    ],
)
def test_impossible_settings_are_refused(settings, said):
    with pytest.raises(FedloomError, match=said):
        Krum(**settings)
    with pytest.raises(FedloomError, match=said):
        MultiKrum(**settings)


def test_nothing_cannot_be_averaged():
    with pytest.raises(FedloomError, match="chosen=0: it must be at least 1"):
        MultiKrum(chosen=0)


@given(st.integers(1, 8), st.integers(1, 60), st.floats(-1e3, 1e3), st.integers(0, 1000))
def test_they_are_scipys_also_far_from_the_origin(clients, width, away, seed):
    rows = honest_rows(clients, width, seed) + away
    expected = cdist(rows.double().numpy(), rows.double().numpy(), "sqeuclidean")
    assert np.allclose(squared_distances(rows).numpy(), expected, rtol=1e-3, atol=1e-3)


def test_blocks_of_columns_and_single_precision_change_little(monkeypatch):
    rows = honest_rows(5, 1000, 0)
    whole = squared_distances(rows)
    monkeypatch.setattr(module, "EXACT", 0)
    monkeypatch.setattr(module, "COLUMNS", 64)
    monkeypatch.setattr(module, "ROWS", 2)
    assert torch.allclose(squared_distances(rows), whole, rtol=1e-5)
    assert torch.equal(squared_distances(rows), squared_distances(rows).T)
    assert bool((squared_distances(rows).diagonal() == 0).all())


@pytest.mark.parametrize("exact", [0, module.EXACT])
@pytest.mark.parametrize("size", [1e4, 1e6, 1e8])
def test_a_huge_row_does_not_blind_the_distances_between_the_others(size, exact, monkeypatch):
    monkeypatch.setattr(module, "EXACT", exact)
    honest = 1e-2 * honest_rows(8, 300, 0)
    beside = squared_distances(torch.cat([torch.full((1, 300), size), honest]))[1:, 1:]
    assert torch.allclose(beside, torch.cdist(honest.double(), honest.double()).square(), rtol=1e-4)


def test_two_rows_are_equally_far_from_each_other_to_the_last_bit():
    for seed in range(20):
        distances = squared_distances(honest_rows(11, 20, seed) + 1)
        assert torch.equal(distances, distances.T)
