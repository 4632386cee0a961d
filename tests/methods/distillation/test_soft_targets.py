"""Cross-entropy with soft targets, by hand and beside torch."""

import math

import torch
import torch.nn.functional as F

from fedloom.methods.distillation.soft_targets import soft_cross_entropy


def test_by_hand_on_three_samples():
    """Equal outputs give log 2 whatever the target; outputs of 0 and log 3 have the probabilities 1/4 and 3/4."""
    outputs = torch.tensor([[1.0, 1.0], [0.0, math.log(3)], [0.0, math.log(3)]])
    goal = torch.tensor([[0.3, 0.7], [1.0, 0.0], [0.5, 0.5]])
    expected = [math.log(2), math.log(4), 0.5 * math.log(4) + 0.5 * math.log(4 / 3)]
    assert torch.allclose(soft_cross_entropy(outputs, goal), torch.tensor(expected))


def test_with_hard_targets_it_is_cross_entropy():
    outputs, y = torch.randn(5, 3), torch.tensor([0, 2, 1, 1, 0])
    assert torch.allclose(
        soft_cross_entropy(outputs, F.one_hot(y, 3).float()), F.cross_entropy(outputs, y, reduction="none")
    )


def test_its_gradient_is_that_of_the_divergence():
    outputs, goal = torch.randn(4, 3, requires_grad=True), torch.softmax(torch.randn(4, 3), 1)
    divergence = F.kl_div(F.log_softmax(outputs, 1), goal, reduction="sum")
    expected, found = (
        torch.autograd.grad(loss, outputs)[0] for loss in (divergence, soft_cross_entropy(outputs, goal).sum())
    )
    assert torch.allclose(expected, found, atol=1e-6)


def test_in_a_stream_only_seen_classes_take_part():
    """p = (.2, .6 unseen, .2) over the seen classes is (.5, .5); outputs (0, 9 unseen, 0) give log 2. No teacher: 0."""
    outputs, goal = torch.tensor([[0.0, 9.0, 0.0]] * 2), torch.tensor([[0.2, 0.6, 0.2], [0.0, 0.0, 0.0]])
    found = soft_cross_entropy(outputs, goal, torch.tensor([0, 2]))
    assert torch.allclose(found, torch.tensor([math.log(2), 0.0]))
