"""A head that grows: the loss of a model with only the outputs seen so far, and no other class is predicted."""

from __future__ import annotations

import pytest
import torch

from fedloom.core.errors import FedloomError
from fedloom.core.model.growing_head import GrowingHead, with_growing_head
from fedloom.core.objective import CrossEntropy
from fedloom.core.targets import IGNORED

OUTPUTS = torch.tensor([[5.0, 1.0, 2.0, 0.0], [5.0, 0.0, 0.0, 3.0], [9.0, 1.0, 1.0, 1.0]])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_a_smaller_head(smoothing):
    head = GrowingHead(CrossEntropy(smoothing=smoothing), torch.tensor([1, 3]))
    outputs = OUTPUTS.clone().requires_grad_()
    losses, counts = head.losses(outputs, torch.tensor([1, 3, IGNORED]))
    small, _ = CrossEntropy(smoothing=smoothing).losses(OUTPUTS[:, [1, 3]], torch.tensor([0, 1, IGNORED]))
    assert torch.equal(losses, small)
    assert counts.tolist() == [1, 1, 0]
    losses.sum().backward()
    assert outputs.grad[:, [0, 2]].abs().max() == 0
    assert outputs.grad[2].abs().max() == 0


def test_by_hand():
    """Two outputs a and b of the seen classes: -log(e^a / (e^a + e^b))."""
    head = GrowingHead(CrossEntropy(), torch.tensor([1, 3]))
    losses, _ = head.losses(OUTPUTS, torch.tensor([1, 1, 3]))
    e = torch.e
    expected = torch.tensor([e / (e + 1), 1 / (1 + e**3), 0.5]).log().neg()
    assert torch.allclose(losses, expected)
    hits, counts = head.scores(OUTPUTS, torch.tensor([1, 3, 0]))
    assert hits[:2].tolist() == [1, 1]
    assert counts.tolist() == [1, 1, 0]


def test_no_unseen_class_is_predicted():
    assert GrowingHead(CrossEntropy(), torch.tensor([1, 3])).mask(OUTPUTS).argmax(1).tolist() == [1, 3, 1]


def test_it_fits_the_classes_of_each_task_and_is_gone_without_a_stream():
    plain = CrossEntropy()
    first = with_growing_head(plain, torch.tensor([0]))
    second = with_growing_head(first, torch.tensor([0, 1]))
    assert second.of is plain
    assert second.seen.tolist() == [0, 1]
    assert second.score == "accuracy"
    assert with_growing_head(second, None) is plain
    assert with_growing_head(plain, None) is plain


def test_weights_of_classes_are_refused():
    with pytest.raises(FedloomError, match="class_weights do not go with a stream"):
        GrowingHead(CrossEntropy(class_weights=(1.0, 2.0)), torch.tensor([0]))
