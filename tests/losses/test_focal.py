"""Focal loss: its formula, cross-entropy at gamma 0, and padding that does not count."""

import pytest
import torch
import torch.nn.functional as F

from fedloom.core.errors import FedloomError
from fedloom.core.objective import CrossEntropy
from fedloom.core.targets import IGNORED
from fedloom.losses.focal import Focal


def test_it_is_the_papers_formula():
    outputs, targets = torch.randn(50, 4, dtype=torch.float64), torch.randint(4, (50,))
    p = outputs.softmax(1)[torch.arange(50), targets]
    found, counts = Focal(gamma=3).losses(outputs, targets)
    assert found.allclose((1 - p) ** 3 * -p.log())
    assert counts.sum() == 50


def test_gamma_zero_is_cross_entropy_to_the_byte():
    outputs, targets = torch.randn(50, 4), torch.randint(4, (50,))
    assert torch.equal(Focal(gamma=0).losses(outputs, targets)[0], CrossEntropy().losses(outputs, targets)[0])


def test_tokens_that_are_padding_do_not_count_and_gradients_are_finite_where_it_is_sure():
    outputs, targets = torch.randn(3, 5, 4), torch.randint(4, (3, 5))
    targets[:, 3:] = IGNORED
    outputs[0, 0, targets[0, 0]] = 1e3
    outputs.requires_grad_()
    values, counts = Focal().losses(outputs, targets)
    flat = Focal().losses(outputs[:, :3].flatten(0, 1), targets[:, :3].flatten())[0]
    assert values.allclose(flat.view(3, 3).sum(1))
    assert counts.tolist() == [3, 3, 3]
    values.sum().backward()
    assert outputs.grad is not None
    assert outputs.grad.isfinite().all()
    assert (outputs.grad[:, 3:] == 0).all()


def test_class_weights_multiply():
    outputs, targets = torch.randn(20, 3), torch.randint(3, (20,))
    weights = torch.tensor([1.0, 2.0, 5.0])
    found = Focal(class_weights=(1.0, 2.0, 5.0)).losses(outputs, targets)[0]
    assert found.allclose(Focal().losses(outputs, targets)[0] * weights[targets])
    assert F.cross_entropy(outputs, targets) > 0


@pytest.mark.parametrize("gamma", [-1.0, 0.5])
def test_a_gamma_with_unbounded_gradients_is_refused(gamma):
    with pytest.raises(FedloomError, match="gamma"):
        Focal(gamma=gamma)
