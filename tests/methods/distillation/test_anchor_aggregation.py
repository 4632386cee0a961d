"""Schemes A and B of FedFMRL by hand on two clients and three samples, and the shares that each scheme gives clients.

Scheme C has no function of its own: ``test_fedfmrl.py`` compares its anchor with the mixtures written out.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedloom.methods.distillation.alpha_mixing import draw_alpha, mix
from fedloom.methods.distillation.anchor_aggregation import (
    means_of_others,
    mix_with_others,
    normalised_average,
    weighted_average,
)

OUTPUTS = torch.tensor([[[1.0, 0.0], [2.0, -2.0], [0.0, 4.0]], [[3.0, 1.0], [0.0, 2.0], [0.0, 0.0]]])
ALPHA = torch.tensor([[[0.5, 0.0], [0.5, 0.5], [0.2, 0.4]], [[0.25, 0.5], [0.0, 0.0], [0.0, 0.0]]])


def random(clients: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randn(clients, 4, 3, generator=generator)
    return outputs, draw_alpha(outputs.shape, 0.8, generator)


def sequence_shares(alphas: torch.Tensor) -> torch.Tensor:
    """What each client's output counts in the anchor of scheme C, by the ratios of the N - 1 mixing steps."""
    kept = (1 - alphas).flip(0).cumprod(0).flip(0)
    one = torch.ones(1, *alphas.shape[1:])
    return torch.cat([one, alphas]) * torch.cat([kept, one])


def test_scheme_a_by_hand():
    printed = torch.tensor([[0.5 + 2.25, 0.5], [1.0, -1.0 + 2.0], [0.0, 2.4]]) / (2 * 0.8)
    assert torch.allclose(weighted_average(OUTPUTS, ALPHA, 0.8), printed)
    sums = torch.tensor([[1.25, 1.5], [1.5, 1.5], [1.8, 1.6]])
    assert torch.allclose(normalised_average(OUTPUTS, ALPHA), printed * 1.6 / sums)


def test_scheme_b_by_hand():
    """Of two clients the others are the other one, and have 1 - alpha; client n has alpha. The pair is halved."""
    one = torch.tensor([[2.0, 1.0], [1.0, 0.0], [0.0, 1.6]])
    two = torch.tensor([[1.5, 0.5], [2.0, -2.0], [0.0, 4.0]])
    assert torch.allclose(mix_with_others(OUTPUTS, ALPHA), (one + two) / 2)


def test_shares_of_two_mixing_steps_by_hand():
    """Client 2 with alpha, then client 3 (here client 1 again) with its own."""
    second = mix(mix(OUTPUTS[0], OUTPUTS[1], ALPHA[0]), OUTPUTS[0], ALPHA[1])
    shares = sequence_shares(ALPHA)
    assert torch.allclose(shares[:, 0, 0], torch.tensor([0.5 * 0.75, 0.5 * 0.75, 0.25]))
    assert torch.allclose((shares * OUTPUTS[[0, 1, 0]]).sum(0), second)


@given(clients=st.integers(2, 6), seed=st.integers(0, 1000), ratio=st.floats(0, 0.9))
def test_a_ratio_that_all_clients_share_makes_a_normalised_and_b_the_plain_mean(clients, seed, ratio):
    outputs, _ = random(clients, seed)
    alpha = torch.full_like(outputs, ratio)
    assert torch.allclose(mix_with_others(outputs, alpha), outputs.mean(0), atol=1e-5)
    assert torch.allclose(normalised_average(outputs, alpha), outputs.mean(0), atol=1e-5)


@given(clients=st.integers(1, 6), seed=st.integers(0, 1000))
def test_shares_of_b_normalised_a_and_c_sum_to_one_and_those_of_printed_a_do_not(clients, seed):
    _, alpha = random(clients, seed)
    same = torch.full_like(alpha, 7.0)  # clients that agree
    assert torch.allclose(mix_with_others(same, alpha), same[0])
    assert torch.allclose(normalised_average(same, alpha), same[0])
    assert torch.allclose(sequence_shares(alpha[1:]).sum(0), torch.ones(4, 3))
    assert torch.allclose(weighted_average(same, alpha, 0.8), 7.0 * (1 - alpha.mean(0)) / 0.8)


def test_printed_scheme_a_grows_tenfold_in_each_round_where_a_cap_is_small():
    anchor = torch.ones(5, 4, 3)
    for _ in range(6):
        alpha = draw_alpha(anchor.shape, 0.1, torch.Generator().manual_seed(3))
        anchor = weighted_average(anchor, alpha, 0.1).expand(5, 4, 3)
    assert anchor.min() > 9.0**6


def test_printed_scheme_a_with_equal_ratios_is_the_mean_but_for_its_scale():
    """So its missing normalisation alone changes no predicted class."""
    outputs, _ = random(4, 2)
    anchor = weighted_average(outputs, torch.full_like(outputs, 0.05), 0.1)
    assert torch.allclose(anchor, 9.5 * outputs.mean(0), atol=1e-5)


def test_one_client_is_its_own_anchor():
    outputs, alpha = random(1, 0)
    assert torch.equal(means_of_others(outputs), outputs)
    for anchor in (mix_with_others(outputs, alpha), normalised_average(outputs, alpha)):
        assert torch.allclose(anchor, outputs[0])
    assert sequence_shares(alpha[1:]).tolist() == torch.ones(1, 4, 3).tolist()


def test_the_last_clients_decide_in_scheme_c():
    """With alpha 0.4 the last of ten clients has 40 % and the first 1 %: worth four clients of equal shares."""
    shares = sequence_shares(torch.full((9,), 0.4))
    assert shares[-1].item() == pytest.approx(0.4)
    assert shares[0].item() == pytest.approx(0.6**9)
    assert 1 / shares.square().sum().item() == pytest.approx(4.0, abs=0.1)
