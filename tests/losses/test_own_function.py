"""A user's own function as a loss: one number per sample, with the score of its kind of target."""

import pytest
import torch
import torch.nn.functional as F

from fedloom.core.errors import FedloomError
from fedloom.core.objective import CrossEntropy
from fedloom.core.targets import IGNORED
from fedloom.losses.own_function import OwnLoss


def per_sample(outputs, targets):
    return F.cross_entropy(outputs, targets, reduction="none")


def per_token(outputs, targets):
    return F.cross_entropy(outputs.transpose(1, 2), targets, reduction="none")


def test_it_is_the_function_with_the_usual_score():
    outputs, targets = torch.randn(20, 3), torch.randint(3, (20,))
    mine, usual = OwnLoss(per_sample, CrossEntropy()), CrossEntropy()
    for one, other in zip(mine.losses(outputs, targets), usual.losses(outputs, targets), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(mine.scores(outputs, targets)[0], usual.scores(outputs, targets)[0])
    assert mine.score == "accuracy"


def test_a_loss_per_token_is_summed_without_padding():
    outputs, targets = torch.randn(4, 6, 3), torch.randint(3, (4, 6))
    targets[:, 4:] = IGNORED
    mine, usual = OwnLoss(per_token, CrossEntropy()), CrossEntropy()
    for one, other in zip(mine.losses(outputs, targets), usual.losses(outputs, targets), strict=True):
        assert one.allclose(other)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda o, t: F.cross_entropy(o, t), "returned one number for 20 samples: return one loss per sample"),
        (lambda o, t: o, r"numbers of shape \(20, 3\)"),  # noqa: ARG005
        (lambda o, t: 1.0, "returned a float"),  # noqa: ARG005
    ],
)
def test_anything_but_a_loss_per_sample_is_refused(function, said):
    with pytest.raises(FedloomError, match=said):
        OwnLoss(function, CrossEntropy()).losses(torch.randn(20, 3), torch.randint(3, (20,)))
