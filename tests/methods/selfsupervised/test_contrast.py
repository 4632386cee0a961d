"""Contrastive losses: by hand on three samples, with padding, and what each of them is least for."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from fedloom.methods.selfsupervised.contrast import model_contrast, nt_xent, simsiam

ONE, TWO = [1.0, 0.0], [0.0, 1.0]
THREE = torch.tensor([[ONE, ONE], [TWO, TWO], [[-1.0, 0.0], [0.0, -1.0]]])
"""Two views of three samples: two whose views agree, and one whose views are at a right angle."""


def test_nt_xent_by_hand_on_three_samples():
    """With t = 1 a view sees e for its like, 1/e for its opposite and 1 at a right angle; five others each."""
    e = math.e
    first = -math.log(e / (e + 3 + 1 / e))  # its partner; the two of TWO and (0, -1); (-1, 0)
    second = -math.log(e / (e + 3 + 1 / e))
    left = -math.log(1 / (2 / e + 2 + 1))  # (-1, 0): its partner at a right angle, ONE twice opposite, TWO twice
    down = -math.log(1 / (2 / e + 2 + 1))
    found = nt_xent(THREE, torch.ones(3), 1.0)
    torch.testing.assert_close(found, torch.tensor([first, second, (left + down) / 2]))


def test_the_temperature_divides_the_cosines_and_lengths_do_not_count():
    found = nt_xent(THREE * torch.tensor([2.0, 5.0, 0.1]).view(3, 1, 1), torch.ones(3), 0.5)
    e = math.exp(2)
    torch.testing.assert_close(found[0], torch.tensor(-math.log(e / (e + 3 + 1 / e))))


@pytest.mark.parametrize("padding", [1, 3])
def test_padding_is_nobodys_negative_and_has_a_gradient_of_zero(padding):
    z = torch.randn(4, 2, 6, generator=torch.Generator().manual_seed(0))
    wide = torch.cat([z, torch.zeros(padding, 2, 6)]).requires_grad_()
    mask = torch.tensor([1.0] * 4 + [0.0] * padding)
    values = nt_xent(wide, mask, 0.5)
    torch.testing.assert_close(values[:4], nt_xent(z, torch.ones(4), 0.5))
    (gradient,) = torch.autograd.grad((values * mask).sum(), [wide])
    assert bool(gradient.isfinite().all())
    assert float(gradient[4:].abs().max()) == 0.0


def test_more_negatives_are_added_to_the_denominator():
    """ONE with the negatives ONE and TWO, one of which is padding."""
    e, negatives = math.e, torch.tensor([ONE, TWO, ONE])
    found = nt_xent(THREE, torch.ones(3), 1.0, negatives, torch.tensor([1.0, 1.0, 0.0]))
    torch.testing.assert_close(found[0], torch.tensor(-math.log(e / (e + 3 + 1 / e + e + 1))))
    none = nt_xent(THREE, torch.ones(3), 1.0, torch.zeros(0, 2))
    assert torch.equal(none, nt_xent(THREE, torch.ones(3), 1.0))


def test_one_sample_alone_has_nothing_to_be_told_from():
    assert float(nt_xent(torch.tensor([[ONE, TWO]]), torch.ones(1), 0.5)) == pytest.approx(0.0, abs=1e-6)


def test_nt_xent_is_the_cross_entropy_of_picking_the_partner():
    z = torch.randn(5, 2, 3, generator=torch.Generator().manual_seed(1))
    views = F.normalize(torch.cat([z[:, 0], z[:, 1]]), dim=1)
    logits = (views @ views.t() / 0.3).fill_diagonal_(-torch.inf)
    whole = F.cross_entropy(logits, torch.tensor([5, 6, 7, 8, 9, 0, 1, 2, 3, 4]))
    torch.testing.assert_close(nt_xent(z, torch.ones(5), 0.3).mean(), whole)


def test_simsiam_by_hand_on_three_samples():
    """p_1 with z_2 and p_2 with z_1: alike (-1), at a right angle (0), and one of each (-1/2)."""
    predictions = torch.tensor([[ONE, ONE], [ONE, ONE], [[0.0, -2.0], TWO]])
    found = simsiam(THREE, predictions)
    torch.testing.assert_close(found, torch.tensor([-1.0, 0.0, -0.5]))


def test_simsiam_stops_the_gradient_of_its_targets():
    z = THREE.clone().requires_grad_()
    loss = simsiam(z, 2 * THREE).sum()
    assert not loss.requires_grad
    assert bool(torch.autograd.grad(simsiam(z, z + 0.1).sum(), [z])[0].abs().sum() > 0)


def test_the_contrast_of_models_by_hand_on_three_samples():
    z = torch.tensor([ONE, ONE, ONE])
    near, far = torch.tensor([ONE, TWO, ONE]), torch.tensor([TWO, ONE, ONE])
    e = math.exp(2)  # cosine 1 at temperature 0.5
    wanted = [-math.log(e / (e + 1)), -math.log(1 / (1 + e)), math.log(2)]
    torch.testing.assert_close(model_contrast(z, near, far, 0.5), torch.tensor(wanted))
