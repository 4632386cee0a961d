"""The ratios of FedFMRL: equations 6.4 and 6.6 by hand, the closed form as the best move, and where learning ends."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedloom.methods.distillation.alpha_mixing import (
    BELOW_ONE,
    alpha_loss,
    alpha_rates,
    closed_form_alpha,
    downhill,
    draw_alpha,
    learn_alpha,
    mix,
)

ANCHOR = torch.tensor([[1.0, 0.0], [2.0, -2.0], [0.0, 4.0]])
PARTNER = torch.tensor([[3.0, 1.0], [0.0, 2.0], [0.0, 0.0]])
SERVER = torch.tensor([[0.5, 0.5], [0.25, 0.75], [0.1, 0.9]]).log()


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_mixing_three_samples_by_hand():
    alpha = torch.tensor([[0.5, 0.5], [0.25, 0.75], [0.9, 0.25]])
    assert torch.allclose(mix(ANCHOR, PARTNER, alpha), torch.tensor([[2.0, 0.5], [1.5, 1.0], [0.0, 3.0]]))
    assert torch.equal(mix(ANCHOR, PARTNER, torch.zeros(3, 2)), ANCHOR)


def loss_in_float64(mixed, log_probabilities, alpha, c_n, reading):
    """Equation 6.6 written out, sample by sample."""
    total = 0.0
    for outputs, logs in zip(mixed.double().numpy(), log_probabilities.double().numpy(), strict=True):
        shares = np.exp(outputs) / np.exp(outputs).sum()
        if reading == "softmax":
            total -= sum(share * one for share, one in zip(shares, logs, strict=True))
        elif reading == "server-label":
            total -= np.log(shares[int(np.argmax(logs))])
        else:
            total -= sum(one * other for one, other in zip(outputs, logs, strict=True))
    return total / len(mixed) + c_n * np.sqrt((alpha.double().numpy() ** 2).sum())


@pytest.mark.parametrize("reading", ["softmax", "server-label", "raw"])
def test_each_reading_of_the_loss_of_alpha_is_its_formula_in_float64(reading):
    anchor, partner, teacher = random(9, 4), random(9, 4, seed=1), random(9, 4, seed=2).log_softmax(1)
    alpha = draw_alpha(anchor.shape, 0.8, torch.Generator().manual_seed(3))
    mixed = mix(anchor, partner, alpha)
    found = alpha_loss(mixed, teacher, alpha, 0.05, reading).item()
    assert found == pytest.approx(loss_in_float64(mixed, teacher, alpha, 0.05, reading), rel=1e-5)


@pytest.mark.parametrize("reading", ["softmax", "server-label"])
def test_learned_alpha_prefers_the_client_that_agrees_with_the_server_and_raw_outputs_the_smaller_one(reading):
    """Both say class 0 or 1 with the same certainty; the server says 1. Raw outputs end at the minimum of both."""
    right, wrong = torch.tensor([[0.0, 4.0]]).expand(6, 2), torch.tensor([[4.0, 0.0]]).expand(6, 2)
    teacher = torch.tensor([[0.02, 0.98]]).log().expand(6, 2)
    start, rates = torch.full((6, 2), 0.5), [0.1] * 40

    def learned(anchor, partner, how):
        alpha = learn_alpha(start, lambda a: mix(anchor, partner, a), [teacher] * 40, rates, c_n=0.0, reading=how)
        return mix(anchor, partner, alpha)

    for anchor, partner in ((right, wrong), (wrong, right)):
        assert torch.allclose(learned(anchor, partner, reading), right, atol=1e-4)
        assert learned(anchor, partner, "raw").abs().max() < 1e-4  # no class is left


@pytest.mark.parametrize("reading", ["softmax", "server-label", "raw"])
def test_downhill_is_the_slope_in_float64(reading):
    anchor, teacher, step = random(5, 4), random(5, 4, seed=2).log_softmax(1), 1e-5
    found, nothing = downhill(anchor, teacher, reading), torch.zeros(5, 4)
    for place in ((0, 0), (3, 2), (4, 1)):
        moved = anchor.double().clone()
        moved[place] += step
        low, high = (loss_in_float64(some, teacher, nothing, 0.0, reading) for some in (anchor, moved))
        assert found[place].item() == pytest.approx(-5 * (high - low) / step, rel=1e-3, abs=1e-4)


def test_the_loss_of_alpha_with_raw_outputs_by_hand():
    """-1/3 * (0.5 ln 0.5 + 2 ln 0.5 + 1.5 ln 0.25 + 1.0 ln 0.75 + 0 + 3 ln 0.9) + 0.1 * sqrt(0.25 * 4)."""
    mixed, alpha = torch.tensor([[2.0, 0.5], [1.5, 1.0], [0.0, 3.0]]), torch.tensor([[0.5, 0.5], [0.5, 0.5], [0, 0]])
    assert alpha_loss(mixed, SERVER, alpha, 0.1, "raw").item() == pytest.approx(1.472030 + 0.1, abs=1e-5)


def test_drawn_ratios_have_the_mean_and_the_bounds_that_a_cap_sets():
    alpha = draw_alpha(torch.Size([200, 100]), 0.8, torch.Generator().manual_seed(1))
    assert alpha.min().item() == pytest.approx(1e-8)
    assert alpha.max().item() == pytest.approx(0.8)
    assert ((alpha == 0.8).float().mean() - 0.1587).abs() < 0.01  # above one deviation
    assert (alpha.mean() - 0.4).abs() < 0.01
    assert draw_alpha(torch.Size([500]), 1.0, torch.Generator().manual_seed(1)).max() < 1


def test_one_sgd_step_on_alpha_by_hand():
    """dL/dalpha = -(partner - anchor) * log p / 3 + c_n * alpha / |alpha|; at rate 3 and c_n 0 it is subtracted."""
    start = torch.full((3, 2), 0.5)
    raw = {"optimizer": "sgd", "reading": "raw"}
    found = learn_alpha(start, lambda a: mix(ANCHOR, PARTNER, a), [SERVER], [3.0], c_n=0.0, **raw)
    expected = (start + (PARTNER - ANCHOR) * SERVER).clamp(0, BELOW_ONE)
    assert torch.allclose(found, expected)
    assert found[0].tolist() == [0.0, 0.0]  # the partner is larger in both: its share falls
    assert found[2, 1].item() == pytest.approx(0.5 - 4 * SERVER[2, 1].item())
    pulled = learn_alpha(start, lambda a: mix(ANCHOR, PARTNER, a), [SERVER], [3.0], c_n=0.1, **raw)
    assert (found[2, 1] - pulled[2, 1]).item() == pytest.approx(3 * 0.1 * 0.5 / (0.5 * 6**0.5), abs=1e-6)


def test_alpha_learned_with_raw_outputs_ends_at_the_smaller_of_both_outputs_whatever_the_server_says():
    anchor, partner = random(30, 5), random(30, 5, seed=1)
    for seed in (2, 3):
        teachers = [random(30, 5, seed=seed).log_softmax(1)] * 60
        start = draw_alpha(anchor.shape, 0.8, torch.Generator().manual_seed(4))
        found = learn_alpha(start, lambda a: mix(anchor, partner, a), teachers, [0.1] * 60, c_n=0.0, reading="raw")
        assert torch.allclose(mix(anchor, partner, found), torch.minimum(anchor, partner), atol=1e-5)


@pytest.mark.slow  # torch.optim loads the compiler
def test_steps_of_adam_are_those_of_torch():
    anchor, partner = random(6, 4), random(6, 4, seed=1)
    teachers, rates = [random(6, 4, seed=seed).log_softmax(1) for seed in range(2, 6)], [0.02, 0.02, 0.02, 0.002]
    alpha = torch.full((6, 4), 0.5, requires_grad=True)
    adam = torch.optim.Adam([alpha])
    for teacher, rate in zip(teachers, rates, strict=True):
        adam.param_groups[0]["lr"] = rate
        adam.zero_grad()
        alpha_loss(mix(anchor, partner, alpha), teacher, alpha, 0.01).backward()
        adam.step()
    start = torch.full((6, 4), 0.5)
    found = learn_alpha(start, lambda a: mix(anchor, partner, a), teachers, rates, c_n=0.01)
    assert torch.allclose(found, alpha.detach(), atol=1e-6)


def test_plain_sgd_hardly_moves_alpha_on_many_samples_and_adam_does():
    anchor, partner, teacher = random(1000, 10), random(1000, 10, seed=1), random(1000, 10, seed=2).log_softmax(1)
    start, rates = torch.full((1000, 10), 0.5), alpha_rates(5, 0.1, 0.01)
    moved = {
        name: (learn_alpha(start, lambda a: mix(anchor, partner, a), [teacher] * 5, rates, c_n=0.01, optimizer=name))
        for name in ("sgd", "adam")
    }
    assert (moved["sgd"] - start).abs().max() < 0.01
    assert (moved["adam"] - start).abs().mean() > 0.2


def test_the_rate_of_alpha_changes_after_two_thirds_of_the_epochs():
    assert alpha_rates(5, 0.1, 0.01) == [0.1, 0.1, 0.1, 0.1, 0.01]
    assert alpha_rates(3, 0.1, 10.0) == [0.1, 0.1, 10.0]


def test_the_closed_form_by_hand():
    """Sample 1: |apart| = sqrt 5; along (-2, 0) by 0.5 * sqrt 5 the share of the first entry is negative: clipped."""
    direction = torch.tensor([[2.0, 0.0], [-3.0, 4.0], [0.0, -1.0]])
    found = closed_form_alpha(ANCHOR, PARTNER, direction, 0.5)
    apart_1, apart_2 = 5**0.5, 20**0.5
    assert found[0].tolist() == pytest.approx([0.5 * apart_1 / 2.0, 0.0])
    assert found[1].tolist() == pytest.approx([0.5 * apart_2 * -0.6 / -2.0, 0.5 * apart_2 * 0.8 / 4.0])
    assert found[2].tolist() == pytest.approx([0.0, 0.5])  # the outputs agree in the first entry
    against = closed_form_alpha(ANCHOR, PARTNER, -direction, 0.5)
    assert against.abs().max() == 0


@given(seed=st.integers(0, 10_000))
def test_no_other_ratio_of_the_same_length_lowers_the_first_term_more_than_the_closed_form(seed):
    anchor, teacher = random(1, 6, seed=seed), random(1, 6, seed=seed + 1).log_softmax(1)
    partner = anchor - random(1, 6, seed=seed + 2).abs() * 20 - 20  # far enough below that nothing is clipped
    best = closed_form_alpha(anchor, partner, teacher, 0.05)
    other = random(1, 6, seed=seed + 3)
    length = 0.05 * (partner - anchor).norm()
    assert (best * (partner - anchor)).norm().item() == pytest.approx(length.item(), rel=1e-4)
    other = other / (other * (partner - anchor)).norm() * length
    losses = [alpha_loss(mix(anchor, partner, alpha), teacher, alpha, 0.0, "raw") for alpha in (best, other)]
    assert losses[0] <= losses[1] + 1e-4
