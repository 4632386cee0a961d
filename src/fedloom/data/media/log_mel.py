"""Log-mel spectrograms: how loud each band of pitches is, every ten milliseconds.

A Hann window of 25 ms, every 10 ms; triangular bands, evenly spaced on O'Shaughnessy's mel scale
(mel = 2595 log10(1 + f / 700)) from 0 to half of the rate; the logarithm of their power, with a floor. Everything is
done in one thread and in one order, so that the bytes are the same everywhere on one kind of machine.
"""

from __future__ import annotations

from functools import cache

import numpy as np

WINDOW, HOP = 0.025, 0.010
"""Seconds."""
FLOOR = 1e-6


def step_count(samples: int, rate: int) -> int:
    """How many steps a spectrogram has.

    Args:
        samples: The samples of the sound.
        rate: Samples per second.
    """
    return 1 + max(0, samples - round(WINDOW * rate)) // round(HOP * rate)


def log_mel(signal: np.ndarray, rate: int, bands: int) -> np.ndarray:
    """The spectrogram of a signal, bands × steps.

    Args:
        signal: The samples, between -1 and 1; at least as many as a window has.
        rate: Samples per second.
        bands: How many bands there are.
    """
    width, hop = round(WINDOW * rate), round(HOP * rate)
    frames = np.lib.stride_tricks.sliding_window_view(signal, width)[::hop]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(width) / width)
    spectrum = np.fft.rfft(frames * window, _points(width))
    power = spectrum.real**2 + spectrum.imag**2
    # No matrix product: a BLAS library may add in another order with another number of threads.
    mel = np.einsum("bf,sf->bs", mel_bands(rate, _points(width), bands), power)
    found: np.ndarray = np.log(mel + FLOOR).astype(np.float32)
    return found


def _points(width: int) -> int:
    """The length of the transform: padded, so that the lowest bands hold a frequency of it too."""
    return 1 << (2 * width - 1).bit_length()


@cache
def mel_bands(rate: int, points: int, bands: int) -> np.ndarray:
    """The weight of each frequency of the transform in each band, bands × frequencies.

    Args:
        rate: Samples per second.
        points: The length of the transform.
        bands: How many bands there are.
    """
    top = 2595 * np.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, bands + 2) / 2595) - 1)
    frequencies = np.arange(points // 2 + 1) * rate / points
    low, middle, high = (edges[place : place + bands, None] for place in range(3))
    rising, falling = (frequencies - low) / (middle - low), (high - frequencies) / (high - middle)
    return np.maximum(0, np.minimum(rising, falling))
