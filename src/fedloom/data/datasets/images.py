"""Readers of the image and signal sets: from plain arrays to samples.

Images stay uint8, (N, C, H, W); the task scales them batch by batch. Official training and test images share one
column, the test set last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from fedloom.core.errors import FedloomError
from fedloom.core.inputs import PREFIX
from fedloom.data.federate import Samples
from fedloom.data.folder import read_arrays


def read_digits(path: Path | None = None) -> Samples:  # noqa: ARG001
    """Scikit-learn's 1,797 handwritten digits, 8×8, scaled to [0, 1]; they ship with the dependency."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    images = torch.from_numpy((raw.images / 16).astype(np.float32))[:, None]
    labels = torch.from_numpy(raw.target.astype(np.int64))
    return Samples({"x": images, "y": labels}, 10, [str(digit) for digit in range(10)])


def read_images(path: Path, classes: int, labels: str = "labels", names: Sequence[str] | str = ()) -> Samples:
    """An image set with an official test set; ``labels`` is the label array's name after ``train_``.

    ``names`` are the class names, or the name of the array that has them. If the file has MNIST's writers, they are
    the natural clients.
    """
    needed = [f"{part}_{what}" for part in ("train", "test") for what in ("images", labels)]
    optional = [names] if isinstance(names, str) else []
    arrays = read_arrays(path, needed, [*optional, "train_writer", "test_writer"])
    images = _concatenate(path, arrays.pop("train_images"), arrays.pop("test_images"))
    targets = np.concatenate([arrays[f"train_{labels}"], arrays[f"test_{labels}"]]).astype(np.int64)
    if len(targets) != len(images):
        raise FedloomError(f"{path}: {len(images)} images and {len(targets)} labels: create the file again.")
    train = len(arrays[f"train_{labels}"])
    natural = None
    keys: tuple[str, ...] = ()
    if "train_writer" in arrays and "test_writer" in arrays:
        writers, natural = np.unique(
            np.concatenate([arrays["train_writer"], arrays["test_writer"]]), return_inverse=True
        )
        keys = tuple(f"writer {writer}" for writer in writers)
    return Samples(
        {"x": torch.from_numpy(images), "y": torch.from_numpy(targets)},
        classes,
        [str(name) for name in (arrays.get(names, ()) if isinstance(names, str) else names)],
        natural=natural,
        names=keys,
        global_test=np.arange(train, len(targets)),
    )


def read_signs(path: Path) -> Samples:
    """GTSRB: frames of a track show one physical sign, so a track is a group. Official test images have no track."""
    samples = read_images(path, 43)
    arrays = read_arrays(path, ["train_track", "train_labels"], ["test_track", "test_labels"])
    tracks = [arrays["train_track"].astype(np.int64) * 43 + arrays["train_labels"]]
    if "test_track" in arrays:
        tracks.append(arrays["test_track"].astype(np.int64) * 43 + arrays["test_labels"])
    group, frames = np.concatenate(tracks), len(samples.columns["y"])
    alone = np.arange(frames - len(group)) + group.max() + 1
    return replace(samples, group=np.concatenate([group, alone]))


def _concatenate(path: Path, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    if train.dtype != np.uint8 or train.ndim not in (3, 4) or train.shape[1:] != test.shape[1:]:
        raise FedloomError(
            f"{path}: images must be uint8 of one shape, (N, H, W) or (N, C, H, W), but are "
            f"{train.dtype} {train.shape} and {test.dtype} {test.shape}."
        )
    images = np.concatenate([train, test])
    return images[:, None] if images.ndim == 3 else images


def read_har(path: Path) -> Samples:
    """Smartphone signals by subject: windows of 9 channels × 128 steps that overlap their neighbour by half.

    Parts are therefore split in order within each subject's activity, with one window dropped between two parts.
    """
    arrays = read_arrays(path, ["signals", "labels", "subject"], ["class_names"])
    signals = arrays["signals"].astype(np.float32)
    labels = arrays["labels"].astype(np.int64)
    if signals.ndim != 3 or not len(signals) == len(labels) == len(arrays["subject"]):
        raise FedloomError(f"{path}: signals must be (N, channels, steps) with one label and one subject each.")
    subjects, natural = np.unique(arrays["subject"], return_inverse=True)
    classes = max(6, int(labels.max()) + 1)
    return Samples(
        {"x": torch.from_numpy(signals), "y": torch.from_numpy(labels)},
        classes,
        [str(name).lower().replace("_", " ") for name in arrays.get("class_names", ())],
        natural=natural,
        names=[f"subject {subject}" for subject in subjects],
        blocks=natural * classes + labels,
        gap=1,
    )


HAR_COLUMNS = {"accelerometer": [0, 1, 2, 6, 7, 8], "gyroscope": [3, 4, 5]}
"""The channels of each sensor: the body's and the total acceleration, and the body's rotation."""


def read_har_columns(path: Path) -> Samples:
    """The same signals with an input column per sensor: accelerometer (6 × 128) and gyroscope (3 × 128)."""
    samples = read_har(path)
    signals = samples.columns["x"]
    columns = {f"{PREFIX}{name}": signals[:, channels].contiguous() for name, channels in HAR_COLUMNS.items()}
    return replace(samples, columns={**columns, "y": samples.columns["y"]})
