"""Binary cross-entropy of labels: torch's, and a score that is not called accuracy."""

import torch
import torch.nn.functional as F

from fedloom.losses.bce import BCE


def test_its_mean_is_torchs():
    outputs, targets = torch.randn(30, 4), torch.randint(2, (30, 4), dtype=torch.uint8)
    values, counts = BCE().losses(outputs, targets)
    expected = F.binary_cross_entropy_with_logits(outputs, targets.float())
    assert torch.isclose(values.sum() / counts.sum(), expected)


def test_its_score_asks_for_all_labels_of_a_sample():
    targets = torch.tensor([[1, 0], [1, 1], [0, 0]], dtype=torch.uint8)
    outputs = torch.tensor([[2.0, -1.0], [2.0, -1.0], [-1.0, -1.0]])
    assert BCE().scores(outputs, targets)[0].tolist() == [1, 0, 1]
    assert BCE.score == "exact_match"


def test_a_weight_of_a_label_is_torchs_weight_of_having_it():
    outputs, targets = torch.randn(30, 2), torch.randint(2, (30, 2), dtype=torch.uint8)
    values, counts = BCE(class_weights=(3.0, 0.5)).losses(outputs, targets)
    expected = F.binary_cross_entropy_with_logits(outputs, targets.float(), pos_weight=torch.tensor([3.0, 0.5]))
    assert torch.isclose(values.sum() / counts.sum(), expected)
