"""PCA of updates: two groups by hand, the silhouette of scikit-learn, and clients with flipped labels left out."""

import pytest
import torch
from sklearn.metrics import silhouette_score

import fedloom as fl
from fedloom.aggregation.pca import mean_silhouette, principal_components, two_groups
from support.aggregations import aggregate, honest_rows


def test_components_have_the_distances_of_rows_in_two_dimensions():
    rows = torch.randn(7, 2, generator=torch.Generator().manual_seed(0)) @ torch.randn(2, 30)
    assert torch.allclose(torch.cdist(principal_components(rows), principal_components(rows)).float(), torch.cdist(rows, rows), atol=1e-3)  # fmt: skip # noqa: E501


def test_the_silhouette_is_that_of_scikit_learn():
    points = torch.randn(12, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    group = two_groups(points)
    assert mean_silhouette(points, group) == pytest.approx(silhouette_score(points.numpy(), group.numpy()))


def test_a_small_group_apart_is_left_out_and_the_mean_is_of_the_others():
    rows = honest_rows(9, 6, 2)
    rows[[1, 4]] += 100
    others = [place for place in range(9) if place not in (1, 4)]
    assert torch.allclose(aggregate(fl.PCA(), rows), rows[others].mean(0), atol=1e-4)


def test_where_nobody_stands_apart_everybody_counts():
    rows = honest_rows(9, 6, 2)
    assert torch.allclose(aggregate(fl.PCA(separation=0.9), rows), rows.mean(0), atol=1e-5)
    equal = torch.ones(5, 4)
    assert torch.equal(aggregate(fl.PCA(), equal), equal[0])


@pytest.mark.parametrize("size", [1e8, 3e38])
def test_any_finite_size_gives_a_finite_row(size):
    rows = honest_rows(9, 6, 2)
    rows[3] = size
    assert bool(aggregate(fl.PCA(), rows).isfinite().all())
