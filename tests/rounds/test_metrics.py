"""Named numbers over clients."""

import pytest
import torch

from fedloom.core.errors import FedloomError
from fedloom.rounds.metrics import over_clients, score_per_selected, size_groups, size_limits


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
    assert size_groups(sizes, size_limits(sizes, None)) == ["small"] * 3 + ["intermediate"] * 3 + ["big"] * 3
    assert size_groups(sizes, size_limits(sizes, [2, 800])) == ["small"] * 2 + ["intermediate"] * 5 + ["big"] * 2
    with pytest.raises(FedloomError, match="the first below the second"):
        size_limits(sizes, [5, 5])


def test_new_clients_have_a_mean_of_their_own_and_count_in_nothing_else():
    values = torch.tensor([0.5, 1.0, 0.3, 0.0])
    sizes, new = torch.tensor([10, 30, 50, 10]), torch.tensor([False, False, True, True])
    groups = ["small", "big", "big", "small"]
    found = over_clients("m/own_test/accuracy", values, sizes, groups, new)
    assert found["m/own_test/accuracy/new"] == pytest.approx(0.15)
    alone = over_clients("m/own_test/accuracy", values[:2], sizes[:2], groups[:2])
    assert {name: value for name, value in found.items() if not name.endswith("/new")} == alone


def test_new_clients_without_a_value_have_no_mean():
    values, new = torch.tensor([0.5, float("nan")]), torch.tensor([False, True])
    found = over_clients("m/accuracy", values, torch.tensor([1, 1]), ["big", "big"], new)
    assert "m/accuracy/new" not in found
    assert found["m/accuracy/mean"] == 0.5


def test_efficiency_is_mean_accuracy_per_selected_client():
    name = "client_model/own_test/accuracy"
    assert score_per_selected({f"{name}/mean": 0.74, "x": 1.0}, "accuracy", 14) == {f"{name}/per_selected": 0.74 / 14}
    assert score_per_selected({f"{name}/mean": 0.74}, "accuracy", 0) == {}
    assert score_per_selected({"client_model/own_test/loss/mean": 0.74}, "accuracy", 14) == {}
