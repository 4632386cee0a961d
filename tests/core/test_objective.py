"""Objectives: cross-entropy with smoothing and weights is torch's, and standardised numbers keep their units."""

import torch
import torch.nn.functional as F

from fedloom.core.objective import CrossEntropy, SquaredError, Standardised


def test_smoothing_and_weights_are_torchs_per_sample():
    outputs, targets = torch.randn(40, 5), torch.randint(5, (40,))
    weights = (1.0, 2.0, 0.5, 3.0, 1.0)
    found, counts = CrossEntropy(smoothing=0.2, class_weights=weights).losses(outputs, targets)
    each = F.cross_entropy(outputs, targets, torch.tensor(weights), reduction="none", label_smoothing=0.2)
    assert torch.equal(found, each)
    assert torch.equal(counts, torch.ones(40))  # the mean is over samples, so accuracy beside it stays accuracy


def test_without_settings_it_is_plain_cross_entropy_to_the_byte():
    outputs, targets = torch.randn(40, 5), torch.randint(5, (40,))
    assert torch.equal(CrossEntropy().losses(outputs, targets)[0], F.cross_entropy(outputs, targets, reduction="none"))


def test_standardised_losses_and_scores_in_units():
    targets = torch.tensor([90.0, 110.0])
    goal = Standardised(SquaredError(), mean=100.0, std=10.0)
    outputs = torch.tensor([[-1.0], [2.0]])
    assert goal.losses(outputs, targets)[0].tolist() == [0.0, 0.5]
    assert goal.in_units(outputs).tolist() == [[90.0], [120.0]]
    assert goal.scores(outputs, targets)[0].tolist() == [0.0, 100.0]
    assert goal.score == "squared_error"


def test_several_numbers_are_standardised_each_in_its_own_units():
    goal = Standardised(SquaredError(), mean=(100.0, 1.0), std=(10.0, 0.5))
    targets, outputs = torch.tensor([[90.0, 2.0], [110.0, 1.0]]), torch.tensor([[-1.0, 2.0], [2.0, 0.0]])
    assert goal.standardise(targets).tolist() == [[-1.0, 2.0], [1.0, 0.0]]
    assert goal.losses(outputs, targets)[0].tolist() == [0.0, 0.5]
    assert goal.in_units(outputs).tolist() == [[90.0, 2.0], [120.0, 1.0]]
    for place in range(2):
        one = Standardised(SquaredError(), mean=goal.mean[place], std=goal.std[place])
        assert torch.equal(one.in_units(outputs)[:, place], goal.in_units(outputs)[:, place])
