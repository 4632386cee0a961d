"""DLG rebuilds an image from a gradient of a smooth LeNet, and not from one with the default noise of DP-SGD."""

import pytest
import torch

import fedloom as fl
from fedloom.attacks.reconstruction.dlg import deep_leakage
from fedloom.attacks.reconstruction.gradients import gradient, inputs_of
from fedloom.attacks.reconstruction.rebuilt import judge_rebuilt, value_range
from fedloom.privacy.clipping import clip_rows
from fedloom.privacy.sample_privacy import SamplePrivacy
from support.smooth_lenet import smooth_lenet


def attack(privacy=None, *, seed=0, image=0, known_label=True, iterations=60):
    """The PSNR of an image of the digits that DLG seeks, clamped to the range of pixels."""
    task = fl.task("digits", clients=10, model=smooth_lenet())
    positions = task.federation.train.order[image : image + 1]
    x, y, row = inputs_of(task, positions), task.targets(positions), task.initial_row()
    sent, draw = gradient(task, row.double(), x.double(), y), torch.Generator().manual_seed(seed)
    if privacy is not None:
        noise = torch.randn(sent.shape, generator=draw, dtype=sent.dtype)
        sent = clip_rows(sent[None], privacy.clip)[0] + privacy.multiplier * privacy.clip * noise
    labels = y if known_label else None
    guess = deep_leakage(task, row, sent, labels=labels, iterations=iterations, generator=draw)
    low, high = value_range(task)
    assert known_label or int(guess.labels) == int(y)
    return float(judge_rebuilt(guess.inputs.clamp(low, high), x, high - low).psnr)


def test_a_single_image_is_rebuilt_above_20_db():
    assert attack() > 20


@pytest.mark.slow
def test_it_finds_the_label_too():
    assert attack(known_label=False, iterations=300) > 20


@pytest.mark.slow
@pytest.mark.parametrize("image", [0, 1, 2])
def test_clip_1_and_noise_1_the_default_of_sample_privacy_leave_less_than_12_db(image):
    assert SamplePrivacy().clip == SamplePrivacy().multiplier == 1.0
    assert attack(SamplePrivacy(), seed=image, image=image, iterations=60) < 12


@pytest.mark.slow
def test_the_best_of_several_starts_is_the_one_with_the_least_mismatch():
    task = fl.task("digits", clients=10, model=smooth_lenet())
    positions = task.federation.train.order[:1]
    x, y, row = inputs_of(task, positions), task.targets(positions), task.initial_row()
    sent = gradient(task, row.double(), x.double(), y)
    alone = [
        deep_leakage(task, row, sent, labels=y, iterations=3, generator=draw)
        for draw in [torch.Generator().manual_seed(0)]
        for _ in range(3)
    ]
    best = deep_leakage(task, row, sent, labels=y, iterations=3, starts=3, generator=torch.Generator().manual_seed(0))
    assert best.mismatch == min(guess.mismatch for guess in alone)
