"""AUC and rare false positives: by hand, beside scikit-learn's, and what privacy bounds."""

import math

import pytest
import torch
from sklearn.metrics import roc_auc_score

from fedloom.attacks.measures.guesses import auc, judge_guesses, most_auc, true_positives_at


def test_auc_by_hand_and_as_scikit_learn_has_it():
    assert auc(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1.0])) == 0.875  # 3 wins and a tie of 4 pairs
    generator = torch.Generator().manual_seed(0)
    inside, outside = torch.randn(200, generator=generator) + 0.5, torch.randn(300, generator=generator)
    inside, outside = inside.round(decimals=1), outside.round(decimals=1)  # with ties
    labels = [1] * 200 + [0] * 300
    assert auc(inside, outside) == pytest.approx(roc_auc_score(labels, torch.cat([inside, outside])))


def test_true_positives_where_few_others_are_accused():
    inside, outside = torch.arange(100.0) + 50, torch.arange(100.0)
    found = true_positives_at(inside, outside, 0.01)
    # one of the others (99) may be accused: members above 98 are 99 to 149
    assert (found.false_positives, found.true_positives) == (0.01, 0.51)
    assert found.least < 0.51 < found.most
    assert found.most_false_positives > 0.01
    assert true_positives_at(inside, outside, 0.001).true_positives == 0.5  # none may be: those above 99


def test_equal_scores_accuse_nobody():
    found = true_positives_at(torch.zeros(50), torch.zeros(50), 0.1)
    assert (found.false_positives, found.true_positives) == (0.0, 0.0)
    assert judge_guesses(torch.zeros(50), torch.zeros(50)).auc == 0.5


def test_more_than_privacy_allows_is_found_and_chance_is_not():
    sure = true_positives_at(torch.ones(500), torch.zeros(5000), 0.001)
    assert sure.exceeds(2.0, 1e-5)  # all members and at most 0.07 % of others: more than exp(2) times
    assert not sure.exceeds(10.0, 1e-5)
    few = true_positives_at(torch.ones(5), torch.zeros(5), 0.001)
    assert not few.exceeds(2.0, 1e-5), "of five others up to half may be accused"
    generator = torch.Generator().manual_seed(3)
    noise = judge_guesses(torch.randn(2000, generator=generator), torch.randn(2000, generator=generator), (0.01, 0.1))
    assert not any(rate.exceeds(math.log(2), 0.0) for rate in noise.rates)


def test_the_largest_auc_that_privacy_leaves_is_known_for_one_pair_and_for_gaussian_noise():
    assert most_auc([(0.0, 0.0)]) == pytest.approx(0.5)
    assert most_auc([(2.0, 0.0)]) == pytest.approx(math.exp(2) / (1 + math.exp(2)), abs=1e-6)
    assert most_auc([(2.0, 0.1)]) == pytest.approx(1 - 0.9**2 / (1 + math.exp(2)), abs=1e-6)
    normal, shift = torch.distributions.Normal(0.0, 1.0), 0.5  # of N(0, 1) and N(shift, 1) all pairs are known

    def delta(epsilon):
        far, near = (normal.cdf(torch.tensor(-epsilon / shift + side * shift / 2)) for side in (1, -1))
        return float(far - math.exp(epsilon) * near)

    bound = most_auc([(step / 50, delta(step / 50)) for step in range(150)])
    assert bound == pytest.approx(float(normal.cdf(torch.tensor(shift / 2**0.5))), abs=2e-4)
    assert bound < most_auc([(2.0, delta(2.0))]), "all pairs together say more than any one of them"
