"""RMIA: the share of the population over which a sample has gained."""

import torch

from fedloom.attacks.membership.rmia import rmia_scores


def test_the_scores_by_hand():
    population = torch.tensor([0.5, 1.0, 2.0, 4.0])
    asked = torch.tensor([0.4, 1.0, 3.0, 8.0])
    assert rmia_scores(asked, population).tolist() == [0.0, 0.5, 0.75, 1.0]
    assert rmia_scores(asked, population, gamma=2.0).tolist() == [0.0, 0.25, 0.5, 1.0]
