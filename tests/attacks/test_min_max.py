"""Min-max and min-sum: as far as their conditions allow and not a step farther, and by hand."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedloom as fl
from fedloom.core.errors import FedloomError


def test_two_updates_by_hand():
    # 0 and 2 on a line: mean 1, standard deviation 1, largest distance 2; 1 - g is 2 from update 2 at g = 1
    honest = torch.tensor([[0.0], [2.0]])
    assert fl.MinMax().agreed_change(honest).tolist() == [0.0]
    # sums of squared distances: 4 for each; (1 - g)^2 + (1 + g)^2 = 4 at g = 1
    assert fl.MinSum().agreed_change(honest).tolist() == [0.0]
    three = torch.tensor(
        [[0.0], [0.0], [3.0]]
    )  # mean 1, deviation sqrt 2, largest distance 3: 3 - (1 - d) = 3 at d = 1
    assert fl.MinMax().agreed_change(three).tolist() == pytest.approx([0.0])
    # the largest sum is that of 3: 18; 2 (1 - d)^2 + (2 + d)^2 = 3 d^2 + 6 = 18 at d = 2
    assert fl.MinSum().agreed_change(three).tolist() == pytest.approx([-1.0])


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), number=st.integers(2, 9), direction=st.sampled_from(["std", "unit", "sign"]))
def test_the_condition_is_met_with_equality(seed, number, direction):
    honest = torch.randn(number, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 1
    sent = fl.MinMax(direction=direction).agreed_change(honest)
    assert float(torch.cdist(sent[None], honest).max()) == pytest.approx(float(torch.cdist(honest, honest).max()))
    sent = fl.MinSum(direction=direction).agreed_change(honest)
    most = float(torch.cdist(honest, honest).square().sum(1).max())
    assert float(torch.cdist(sent[None], honest).square().sum()) == pytest.approx(most)


def test_equal_updates_leave_nowhere_to_go():
    honest = torch.ones(3, 4)
    for attack in (fl.MinMax(), fl.MinSum()):
        assert torch.allclose(attack.agreed_change(honest), torch.ones(4, dtype=torch.float64))


def test_one_attacker_has_no_distances_of_its_own():
    task = fl.task("digits", clients=4)
    with pytest.raises(FedloomError, match="minmax needs at least 2 hostile clients"):
        fl.run(task, "fedavg", rounds=1, adversary={"name": "minmax", "clients": [1]})
    run = fl.run(task, "fedavg", rounds=1, adversary={"name": "minmax", "clients": [1], "knows": "all"})
    assert math.isfinite(run.last("global_model/global_test/loss"))
