"""The spectrogram against torch's transform, and against what a sine must look like."""

import numpy as np
import pytest
import torch

from fedloom.data.media.log_mel import FLOOR, log_mel, mel_bands, step_count
from support.media_files import sine


@pytest.mark.parametrize("rate", [4000, 8000, 16_000, 22_050])
def test_it_is_the_mel_weighted_power_of_torchs_transform(rate):
    signal = np.random.default_rng(0).normal(size=rate // 2)
    width, hop = round(0.025 * rate), round(0.01 * rate)
    points = 1 << (2 * width - 1).bit_length()
    frames = torch.from_numpy(signal).unfold(0, width, hop)
    power = torch.fft.rfft(frames * torch.hann_window(width, dtype=torch.float64), points).abs() ** 2
    expected = torch.log(power @ torch.from_numpy(mel_bands(rate, points, 40)).T + FLOOR).T
    found = log_mel(signal, rate, 40)
    assert found.shape == (40, step_count(len(signal), rate))
    assert np.allclose(found, expected.numpy(), atol=1e-5)


@pytest.mark.parametrize("rate", [4000, 8000, 16_000, 48_000])
def test_every_band_holds_a_frequency_of_the_transform(rate):
    points = 1 << (2 * round(0.025 * rate) - 1).bit_length()
    assert (mel_bands(rate, points, 40).max(1) > 0.05).all()


def test_a_sine_is_loudest_in_the_band_of_its_pitch():
    top = 2595 * np.log10(1 + 4000 / 700)
    for pitch in (300, 1000, 3000):
        loudest = log_mel(sine(pitch, rate=8000), 8000, 40).mean(1).argmax()
        assert abs(loudest + 1 - 2595 * np.log10(1 + pitch / 700) / (top / 41)) < 1


def test_silence_is_the_floor():
    assert np.allclose(log_mel(np.zeros(4000), 4000, 8), np.log(FLOOR))
