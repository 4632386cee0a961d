"""The weighted mean by hand."""

import torch

from fedloom.aggregation.mean import Mean


def test_the_mean_is_the_weighted_sum_of_rows():
    rows, weights = torch.tensor([[4.0, 0.0], [0.0, 8.0]]), torch.tensor([0.75, 0.25])
    assert Mean()(rows, weights, None).tolist() == [3.0, 2.0]  # type: ignore[arg-type]
