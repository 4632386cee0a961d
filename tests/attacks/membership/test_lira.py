"""LiRA: the likelihood ratio by hand, what shadows it needs, and how much better than the loss it does."""

import pytest
import torch
from torch.distributions import Normal

from fedloom.attacks.membership.lira import lira_scores
from fedloom.core.errors import FedloomError


def test_the_scores_by_hand():
    # one sample: in at 3 and 5, out at 0 and 2; the deviation over both is sqrt(2)
    shadows = torch.tensor([[3.0], [5.0], [0.0], [2.0]]).double()
    inside = torch.tensor([[True], [True], [False], [False]])
    asked = torch.tensor([3.5]).double()
    spread = 2**0.5
    expected = Normal(4.0, spread).log_prob(asked) - Normal(1.0, spread).log_prob(asked)
    torch.testing.assert_close(lira_scores(asked, shadows, inside), expected.double())
    torch.testing.assert_close(lira_scores(asked, shadows, inside, online=False), (asked - 1) / spread)


def test_of_many_shadow_models_each_sample_has_a_deviation_of_its_own():
    draw = torch.Generator().manual_seed(0)
    inside = torch.arange(128)[:, None].expand(128, 2) % 2 == 0
    shadows = torch.randn(128, 2, generator=draw).double() * torch.tensor([1.0, 10.0]) + 2.0 * inside
    one, ten = lira_scores(torch.tensor([4.0, 4.0]).double(), shadows, inside)
    assert one > 4  # 6 with the true means and deviation, and 0.06 for the other
    assert abs(ten) < 0.5


def test_a_sample_is_hard_or_easy_for_everybody():
    # the same confidence of 4 is usual for the first sample, and tells of training on the second
    shadows = torch.tensor([[4.0, 4.0], [4.2, 3.8], [4.1, -1.0], [3.9, -1.2]]).double()
    inside = torch.tensor([[True, True], [True, True], [False, False], [False, False]])
    usual, telling = lira_scores(torch.tensor([4.0, 4.0]).double(), shadows, inside)
    assert telling > usual + 5


def test_every_sample_needs_a_model_with_it_and_one_without():
    with pytest.raises(FedloomError, match="train two at least"):
        lira_scores(torch.zeros(2), torch.zeros(1, 2), torch.tensor([[True, False]]))
