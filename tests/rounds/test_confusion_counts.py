"""The counts of a confusion matrix, by hand and beside scikit-learn's."""

from __future__ import annotations

import torch
from sklearn.metrics import confusion_matrix

from fedloom.rounds.confusion_counts import ConfusionCounts


def test_rows_are_true_classes_and_columns_predicted_ones() -> None:
    outputs = torch.tensor([[0.9, 0.1, 0.0], [0.0, 0.1, 0.9], [0.1, 0.8, 0.1]])
    counts = ConfusionCounts(3).sums(outputs, torch.tensor([0, 0, 1]))
    assert counts.view(3, 3).tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 0]]


def test_batches_add_up_to_the_matrix_of_scikit_learn() -> None:
    torch.manual_seed(0)
    outputs, targets = torch.randn(50, 4), torch.randint(4, (50,))
    metric = ConfusionCounts(4)
    added = metric.sums(outputs[:20], targets[:20]) + metric.sums(outputs[20:], targets[20:])
    assert added.view(4, 4).tolist() == confusion_matrix(targets, outputs.argmax(1), labels=range(4)).tolist()
