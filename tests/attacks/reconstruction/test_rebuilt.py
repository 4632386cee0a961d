"""What was rebuilt beside what was sought, and the numbers of a round."""

import math

import pytest
import torch

from fedloom.attacks.reconstruction.rebuilt import judge_rebuilt, summary

ORIGINALS = torch.stack([torch.full((1, 8, 8), value) for value in (0.0, 0.5, 1.0)])


def test_each_original_has_its_guess_in_its_place():
    guesses = torch.stack([ORIGINALS[2] - 0.09, ORIGINALS[0] + 0.01]).flatten(1)  # flat, and in another order
    found = judge_rebuilt(guesses, ORIGINALS, 1.0, clients=[4])
    assert found.rebuilt.shape == ORIGINALS.shape
    assert [round(value) for value in found.psnr.nan_to_num(nan=-1).tolist()] == [40, -1, 21]
    assert bool(found.rebuilt[1].isnan().all())
    assert found.recognised == pytest.approx(2 / 3)
    assert not found.of_sum


def test_the_share_is_of_all_samples_of_a_client_also_where_few_were_sought():
    found = judge_rebuilt(ORIGINALS[:1], ORIGINALS[:1], 1.0, of=10)
    assert found.recognised == 0.1


def test_the_numbers_of_a_round_count_every_sample_alike():
    one = judge_rebuilt(ORIGINALS[:1] + 0.1, ORIGINALS[:1], 1.0, labels=1.0)
    two = judge_rebuilt(ORIGINALS[1:] + 0.01, ORIGINALS[1:], 1.0, of=5, labels=0.5)
    numbers = summary([one, two])
    assert numbers["sought"] == 3
    assert numbers["psnr"] == pytest.approx((20 + 40 + 40) / 3, abs=1e-3)
    assert numbers["best_psnr"] == pytest.approx(40, abs=1e-3)
    assert numbers["rebuilt"] >= 2 / 6  # the first one is at 20 dB but for rounding
    assert (numbers["labels"], numbers["of_sum"]) == (0.75, 0.0)
    assert summary([]) == {}
    assert math.isfinite(numbers["ssim"])


def test_rows_that_are_no_images_have_a_psnr_and_no_ssim():
    found = judge_rebuilt(torch.ones(2, 5), torch.zeros(2, 5), 10.0)
    assert found.psnr.tolist() == pytest.approx([20.0, 20.0])
    assert bool(found.ssim.isnan().all())
