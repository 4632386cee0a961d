"""Named numbers over clients."""

import pytest
import torch

from fedloom.core.measure import over_clients, size_groups
from fedloom.errors import FedloomError


def test_mean_spread_weighted_and_worst_decile_by_hand():
    values = torch.tensor([0.5, 1.0, float("nan"), 0.0])
    sizes = torch.tensor([10, 30, 50, 10])
    found = over_clients("m/own_test/accuracy", values, sizes, ["small", "big", "big", "small"])
    assert found["m/own_test/accuracy/mean"] == pytest.approx(0.5)
    assert found["m/own_test/accuracy/std"] == pytest.approx((1 / 6) ** 0.5)
    assert found["m/own_test/accuracy/weighted"] == pytest.approx(35 / 50)
    assert found["m/own_test/accuracy/worst_decile"] == 0.0
    assert found["m/own_test/accuracy/small"] == pytest.approx(0.25)
    assert found["m/own_test/accuracy/big"] == 1.0


def test_nobody_has_a_value_then_there_is_no_number():
    assert over_clients("x/accuracy", torch.tensor([float("nan")]), torch.tensor([3])) == {}


def test_size_groups_by_terciles_or_by_given_bounds():
    sizes = torch.tensor([1, 2, 3, 40, 50, 60, 700, 800, 900])
    assert size_groups(sizes, None) == ["small"] * 3 + ["intermediate"] * 3 + ["big"] * 3
    assert size_groups(sizes, [2, 800]) == ["small"] * 2 + ["intermediate"] * 5 + ["big"] * 2
    with pytest.raises(FedloomError, match="the first below the second"):
        size_groups(sizes, [5, 5])
