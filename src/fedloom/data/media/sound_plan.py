"""What is done to sounds: one rate, one length and one channel, and a log-mel spectrogram or the signal itself.

WAV files of whole numbers (PCM, 8 to 32 bits) are read with Python's own ``wave``; channels are averaged. A sound that
is too long is cut at its end, one that is too short is followed by silence. Only what is kept of a file is read.
"""

from __future__ import annotations

import wave
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil, gcd
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Le

from fedloom.data.media.file_plan import FilePlan, Unreadable, check_file
from fedloom.data.media.log_mel import WINDOW, log_mel, step_count
from fedloom.data.media.media_settings import Sounds
from fedloom.files.limits import most_data

SOUND_ENDINGS = (".wav", ".wave")
HIGHEST_RATE, LONGEST, SHORTEST = 16_000, 10.0, 0.2
"""The highest rate and the limits of the length in seconds where the user says none."""
RATES = range(1000, 384_001)
"""Rates that a file may have: a filter between strange ones is larger than any sound."""
MOST_SAMPLES = 600 * RATES[-1]
"""Of one sound; a plan may come from somebody else's server."""
WHOLE = 0.9
"""The share of files that are not cut where the user names no length."""


class SoundHeader(NamedTuple):
    """What the header of a sound says."""

    rate: int
    seconds: float


class SoundPlan(FilePlan):
    """Rate, length and bands of all sounds."""

    sounds: Literal["resampled"] = "resampled"
    rate: Annotated[int, Ge(RATES[0]), Le(RATES[-1])]
    samples: Annotated[int, Ge(1), Le(MOST_SAMPLES)]
    mels: Annotated[int, Ge(0), Le(256)]
    reason: str = ""
    """Why this rate and length, as a clause."""

    @property
    def what(self) -> str:
        """A sound."""
        return "sound"

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings of WAV files."""
        return SOUND_ENDINGS

    @property
    def shape(self) -> tuple[int, ...]:
        """Bands and steps; of the signal itself, one channel and its samples."""
        return (self.mels, step_count(self.samples, self.rate)) if self.mels else (1, self.samples)

    @property
    def dtype(self) -> type[np.generic]:
        """Numbers."""
        return np.float32

    @property
    def usual_model(self) -> str:
        """A convolutional network for signals."""
        return "conv1d"

    @property
    def lines(self) -> list[str]:
        """Rate, length and features."""
        bands = f"a log-mel spectrogram of {self.mels} bands × {self.shape[1]} steps of 10 ms"
        made = bands if self.mels else "the signal itself (sounds.mels = 0)"
        return [
            f"every sound becomes one channel of {self.samples / self.rate:.3g} s at {self.rate:,} samples per second, "
            f"cut or followed by silence{self.reason and f'; {self.reason}'}",
            f"the model gets {made}",
        ]

    def read(self, path: Path, where: str) -> np.ndarray:
        """One sound: bands × steps, or its one channel."""
        with open_wave(path, where) as file:
            rate = file.getframerate()
            signal = _signal(file, ceil(self.samples * rate / self.rate), where)
        if rate != self.rate:
            from scipy.signal import resample_poly

            common = gcd(rate, self.rate)
            signal = resample_poly(signal, self.rate // common, rate // common)
        whole = np.zeros(max(self.samples, round(WINDOW * self.rate)))
        whole[: min(len(signal), self.samples)] = signal[: self.samples]
        return log_mel(whole, self.rate, self.mels) if self.mels else whole[None, : self.samples].astype(np.float32)


def read_sound_header(path: Path, where: str) -> SoundHeader:
    """What the header of a WAV file says of it.

    Args:
        path: The file, of which no sound is read.
        where: What an error calls it.
    """
    with open_wave(path, where) as file:
        return SoundHeader(file.getframerate(), file.getnframes() / file.getframerate())


def fit_sounds(headers: Sequence[SoundHeader], settings: Sounds) -> SoundPlan:
    """The plan for some sounds: what the user says, or what the files have in common.

    Args:
        headers: What the headers of all sounds say.
        settings: What the user says.
    """
    rate = settings.rate or min(HIGHEST_RATE, min(header.rate for header in headers))
    lengths = np.array([header.seconds for header in headers])
    usual = float(np.clip(np.quantile(lengths, WHOLE, method="higher"), SHORTEST, LONGEST))
    samples = ceil((settings.seconds or usual) * rate)
    cut = int((lengths * rate > samples + 1).sum())
    reasons = [f"{cut:,} of {len(lengths):,} are cut" if cut else "none is cut"]
    said = [f"sounds.{name}" for name in ("seconds", "rate") if getattr(settings, name) is None]
    reasons += [f"{' and '.join(said)} {'say' if len(said) > 1 else 'says'} otherwise"] if said else []
    return SoundPlan(rate=rate, samples=samples, mels=settings.mels, reason="; ".join(reasons))


@contextmanager
def open_wave(path: Path, where: str) -> Iterator[wave.Wave_read]:
    """A WAV file whose header fits what is in it; anything else is ``Unreadable``."""
    if path.suffix.lower() not in SOUND_ENDINGS:
        raise Unreadable(f"{where} is no WAV file: convert it (ffmpeg -i OLD -c:a pcm_s16le NEW.wav) or remove it.")
    size = check_file(path, where, most_data())
    try:
        with path.open("rb") as raw, wave.open(raw) as file:
            rate, claimed = file.getframerate(), file.getnframes() * file.getnchannels() * file.getsampwidth()
            if rate not in RATES:
                raise Unreadable(f"{where} has {rate:,} samples per second: use {RATES[0]:,} to {RATES[-1]:,}.")
            if claimed > size:
                raise Unreadable(f"{where} ends before the sound does: save it again, or remove it.")
            if not claimed:
                raise Unreadable(f"{where} has no sound in it: save it again, or remove it.")
            yield file
    except wave.Error as error:
        if "unknown format" in str(error):
            raise Unreadable(
                f"{where} is a WAV file of a form that is not read, such as numbers with decimals (float): save it as "
                "16-bit PCM (ffmpeg -i OLD -c:a pcm_s16le NEW.wav)."
            ) from None
        raise Unreadable(f"{where} is not a readable WAV file: save it again as 16-bit PCM, or remove it.") from error
    except (OSError, EOFError, ValueError, RuntimeError, OverflowError) as error:
        raise Unreadable(f"{where} is not a readable WAV file: save it again as 16-bit PCM, or remove it.") from error


def _signal(file: wave.Wave_read, frames: int, where: str) -> np.ndarray:
    """The first frames of a sound between -1 and 1, its channels averaged."""
    width, channels = file.getsampwidth(), file.getnchannels()
    data = file.readframes(min(frames, file.getnframes()))
    if width not in (1, 2, 3, 4):
        raise Unreadable(f"{where} has {8 * width} bits per sample: save it as 16-bit PCM.")
    whole = np.frombuffer(data, np.uint8)
    whole = whole[: len(whole) // (width * channels) * width * channels].reshape(-1, width)
    if width == 1:
        values = (whole[:, 0].astype(np.float64) - 128) / 128
    else:  # little-endian numbers of 2, 3 or 4 bytes, at the upper end of 4
        padded = np.zeros((len(whole), 4), np.uint8)
        padded[:, 4 - width :] = whole
        values = padded.view("<i4")[:, 0] / 2.0**31
    mean: np.ndarray = values.reshape(-1, channels).mean(1)
    return mean
