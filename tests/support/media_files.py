"""Small files of images and sounds that a model can learn to tell apart."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
from PIL import Image

PITCHES = {"high": 1500, "low": 300}


def write_stripes(folder: Path, clients: tuple[str, ...] = ("ann", "bob"), count: int = 8) -> Path:
    """``client/class/NUMBER.png``: noisy stripes across or along, in two sizes."""
    draw = np.random.default_rng(0)
    for client in clients:
        for kind in ("across", "along"):
            (folder / client / kind).mkdir(parents=True)
            for number in range(count):
                side = 16 if number % 2 else 20
                lines = np.where(np.arange(side) // 4 % 2, 220, 30)[:, None].repeat(side, 1)
                pixels = (lines if kind == "across" else lines.T) + draw.integers(-25, 25, (side, side))
                Image.fromarray(pixels.astype(np.uint8)).save(folder / client / kind / f"{number}.png")
    return folder


def write_wave(path: Path, signal: np.ndarray, rate: int = 4000, bits: int = 16, channels: int = 1) -> Path:
    """A WAV file of a signal between -1 and 1, the same in all channels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    width = bits // 8
    whole = np.round(signal * (2 ** (bits - 1) - 1)).astype(np.int64) + (128 if bits == 8 else 0)
    frames = whole.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width].repeat(channels, 0)
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        file.writeframes(frames.tobytes())
    return path


def sine(pitch: float, seconds: float = 0.3, rate: int = 4000, phase: float = 0.0) -> np.ndarray:
    """A sine of half of the greatest loudness."""
    return 0.5 * np.sin(2 * np.pi * pitch * np.arange(round(seconds * rate)) / rate + phase)


def write_pitches(folder: Path, clients: tuple[str, ...] = ("ann", "bob"), count: int = 8) -> Path:
    """``client/class/NUMBER.wav``: high and low sines in noise, of several lengths."""
    draw = np.random.default_rng(0)
    for client in clients:
        for kind, pitch in PITCHES.items():
            for number in range(count):
                signal = sine(pitch * draw.uniform(0.9, 1.1), 0.25 + 0.01 * number, phase=number)
                noise = 0.05 * draw.normal(size=len(signal))
                write_wave(folder / client / kind / f"{number}.wav", signal + noise)
    return folder
