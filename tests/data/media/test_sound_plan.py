"""WAV files of any rate, width and number of channels become one signal, and what is none is named."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from fedloom.data.media.file_plan import Unreadable
from fedloom.data.media.media_settings import Sounds
from fedloom.data.media.sound_plan import SoundHeader, SoundPlan, fit_sounds, read_sound_header
from support.media_files import sine, write_wave

RAW = SoundPlan(rate=4000, samples=1200, mels=0)


@pytest.mark.parametrize("bits", [8, 16, 24, 32])
@pytest.mark.parametrize("channels", [1, 2])
def test_every_width_and_number_of_channels_gives_the_signal(bits, channels, tmp_path):
    signal = sine(440)
    found = RAW.read(write_wave(tmp_path / "a.wav", signal, bits=bits, channels=channels), "a.wav")
    assert found.shape == (1, 1200)
    assert found.dtype == np.float32
    assert np.abs(found[0] - signal).max() < 2.5 / 2 ** (bits - 1) + 1e-6


def test_channels_are_averaged(tmp_path):
    both = np.stack([sine(440), -sine(440)], 1).reshape(-1)
    path = write_wave(tmp_path / "a.wav", both)
    data = bytearray(path.read_bytes())
    data[22:24], data[32:34] = struct.pack("<H", 2), struct.pack("<H", 4)
    path.write_bytes(data)
    assert np.abs(RAW.read(path, "a.wav")).max() < 1e-4


@pytest.mark.parametrize("rate", [3000, 8000, 11_025])
def test_another_rate_is_resampled(rate, tmp_path):
    found = RAW.read(write_wave(tmp_path / "a.wav", sine(300, rate=rate), rate=rate), "a.wav")
    assert np.abs(found[0] - sine(300))[50:-50].max() < 0.02


def test_a_long_sound_is_cut_and_a_short_one_is_followed_by_silence(tmp_path):
    long = RAW.read(write_wave(tmp_path / "a.wav", sine(440, 1.0)), "a.wav")[0]
    short = RAW.read(write_wave(tmp_path / "b.wav", sine(440, 0.1)), "b.wav")[0]
    assert np.abs(long - sine(440)).max() < 1e-4
    assert np.abs(short[:400] - sine(440, 0.1)).max() < 1e-4
    assert (short[400:] == 0).all()


@pytest.mark.parametrize("mels", [0, 8])
def test_a_plan_shorter_than_a_window_is_followed(mels, tmp_path):
    plan = SoundPlan(rate=4000, samples=3, mels=mels)
    assert plan.read(write_wave(tmp_path / "a.wav", sine(440)), "a.wav").shape == plan.shape


def test_without_a_wish_the_lowest_rate_counts_and_nine_of_ten_are_whole():
    headers = [SoundHeader(22_050, 0.1 * number) for number in range(1, 11)]
    plan = fit_sounds(headers, Sounds())
    assert plan.rate == 16_000
    assert plan.samples == 16_000
    assert "1 of 10 are cut" not in plan.lines[0]
    assert fit_sounds([SoundHeader(8000, 100.0)] * 2, Sounds()).samples == 80_000
    assert fit_sounds([SoundHeader(8000, 0.01)] * 2, Sounds()).shape == (40, 18)
    asked = fit_sounds(headers, Sounds(rate=8000, seconds=0.5, mels=0))
    assert asked.shape == (1, 4000)
    assert "5 of 10 are cut" in asked.lines[0]


def bad_wave(path: Path, case: str) -> Path:
    whole = bytearray(write_wave(path, sine(440)).read_bytes())
    changes = {
        "nothing": b"",
        "a text": b"hello there, this is no sound",
        "half": bytes(whole[: len(whole) // 2]),
        "header": bytes(whole[:44]),
    }
    if case == "float":
        whole[20:22], whole[34:36] = struct.pack("<H", 3), struct.pack("<H", 32)
    if case == "rate":
        whole[24:28] = struct.pack("<I", 4_000_000_000)
    path.write_bytes(changes.get(case, bytes(whole)))
    return path


@pytest.mark.parametrize(
    ("case", "message"),
    {
        "nothing": "a.wav is empty: save it again",
        "a text": "a.wav is not a readable WAV file: save it again as 16-bit PCM, or remove it",
        "half": "a.wav ends before the sound does: save it again",
        "header": "a.wav ends before the sound does: save it again",
        "float": "a.wav is a WAV file of a form that is not read, such as numbers with decimals (float): save it as",
        "rate": "a.wav has 4,000,000,000 samples per second: use 1,000 to 384,000",
    }.items(),
)
def test_what_is_no_sound_is_named(case, message, tmp_path):
    path = bad_wave(tmp_path / "a.wav", case)
    for read in (read_sound_header, RAW.read):
        with pytest.raises(Unreadable) as caught:
            read(path, "a.wav")
        assert message in str(caught.value)


def test_another_format_is_named(tmp_path):
    (tmp_path / "a.mp3").write_bytes(b"ID3")
    with pytest.raises(Unreadable, match=r"a.mp3 is no WAV file: convert it \(ffmpeg"):
        RAW.read(tmp_path / "a.mp3", "a.mp3")


def test_any_bytes_are_a_sound_or_unreadable(tmp_path):
    """Damage in any place ends in a sentence, and in nothing else."""
    draw, whole = np.random.default_rng(0), write_wave(tmp_path / "whole.wav", sine(440, 0.02)).read_bytes()
    for number in range(200):
        damaged = bytearray(whole)
        for place in draw.integers(0, 60, 3):
            damaged[place] = draw.integers(256)
        path = tmp_path / f"{number}.wav"
        path.write_bytes(damaged)
        try:
            assert RAW.read(path, path.name).shape == (1, 1200)
        except Unreadable as error:
            assert path.name in str(error)  # noqa: PT017
