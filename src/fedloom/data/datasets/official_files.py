"""Converts the files that a data set's publisher distributes into plain files of the data folder.

MNIST and Fashion-MNIST are idx files, CIFAR its binary archives (the Python ones are pickled and refused), UCI HAR a
zip of text tables, GTSRB a zip of PPM images; Shakespeare comes from LEAF's JSON or a table of lines, Stack Exchange
from a table of posts.
"""

from __future__ import annotations

import csv
import io
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.data.datasets.archive import Members, open_members
from fedloom.data.folder import read_tsv_columns, write_arrays, write_tsv
from fedloom.files.json_text import parse_json
from fedloom.files.limits import most_json, read_limited

IDX_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_IDX_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
CHANNELS = [f"{what}_{axis}" for what in ("body_acc", "body_gyro", "total_acc") for axis in "xyz"]
ACTIVITIES = ("WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING")


def convert(name: str, source: Path, target: Path) -> None:
    """Convert the official files of ``name`` at ``source`` into the file ``target``."""
    if name in ("shakespeare", "stackexchange"):
        header = ["play", "role", "line"] if name == "shakespeare" else ["site", "user", "date", "text"]
        rows = _leaf_lines(source) if source.suffix == ".json" and name == "shakespeare" else _table(source, header)
        write_tsv(target, header, rows)
        return
    with open_members(source) as members:
        write_arrays(target, CONVERTERS[name](members))


def _table(source: Path, header: list[str]) -> Iterator[tuple[str, ...]]:
    if source.is_dir():
        raise FedloomError(f"{source} is a folder: give the table, tab-separated with the columns {', '.join(header)}.")
    table = read_tsv_columns(source, header)
    return zip(*(table[name] for name in header), strict=True)


def _leaf_lines(source: Path) -> Iterator[tuple[str, ...]]:
    """LEAF's all_data: a user is PLAY_ROLE; its text is ``raw``, or its first window and every next character."""
    try:
        users: dict[str, Any] = parse_json(read_limited(source, most_json()))["user_data"]
        for user, data in users.items():
            text = data.get("raw") or data["x"][0] + "".join(data["y"])
            if not isinstance(text, str):
                raise TypeError
            play, _, role = user.rpartition("_")
            yield play or user, role or user, text
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise FedloomError(f"{source} is not LEAF's Shakespeare: it needs user_data with raw, or x and y.") from error


def read_idx(data: bytes, what: str) -> np.ndarray:
    """An idx file as an array in native byte order."""
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _IDX_TYPES:
        raise FedloomError(f"{what} is not an idx file: give the official file.")
    start = 4 + 4 * data[3]
    kind = np.dtype(_IDX_TYPES[data[2]])
    shape = struct.unpack(f">{data[3]}I", data[4:start]) if len(data) >= start else (-1,)
    if len(data) != start + int(np.prod(shape, dtype=object)) * kind.itemsize:
        raise FedloomError(f"{what} is cut short: download it again.")
    return np.frombuffer(data, kind, offset=start).reshape(shape).astype(kind.newbyteorder("="))


def _idx(members: Members) -> dict[str, np.ndarray]:
    names = ("train_images", "train_labels", "test_images", "test_labels")
    arrays = {}
    for name, file in zip(names, IDX_FILES, strict=True):
        arrays[name] = read_idx(members.read(file, file.replace("-idx", ".idx")), f"{members.source}:{file}")
    for part in ("train", "test"):  # QMNIST says who wrote which digit: class, series, writer, …
        file = f"qmnist-{part}-labels-idx2-int"
        if members.find(file):
            count = len(arrays[f"{part}_labels"])
            more = read_idx(members.read(file), f"{members.source}:{file}")[:count]
            if more.ndim != 2 or len(more) < count or (more[:, 0] != arrays[f"{part}_labels"]).any():
                raise FedloomError(f"{members.source}:{file} does not belong to these labels: give QMNIST's own file.")
            arrays[f"{part}_hsf"] = more[:, 1].astype(np.uint8)
            arrays[f"{part}_writer"] = more[:, 2].astype(np.int16)
    return arrays


def _cifar(members: Members, label_names: tuple[str, ...], train: list[str], test: str) -> dict[str, np.ndarray]:
    if not members.find(test) and members.find(test.removesuffix(".bin")):
        raise FedloomError(
            f"{members.source} holds pickled batches, which Fedloom never loads: "
            "take the archive that its publisher calls the binary version."
        )
    wide = len(label_names) + 3072
    arrays = {}
    for part, files in (("train", train), ("test", [test])):
        data = b"".join(members.read(file) for file in files)
        if len(data) == 0 or len(data) % wide:
            raise FedloomError(
                f"{members.source}: {files[0]} does not consist of {wide}-byte records: download it again."
            )
        table = np.frombuffer(data, np.uint8).reshape(-1, wide)
        for column, label in enumerate(label_names):
            arrays[f"{part}_{label}"] = table[:, column].copy()
        arrays[f"{part}_images"] = table[:, len(label_names) :].reshape(-1, 3, 32, 32).copy()
    return arrays


def _lines(members: Members, file: str) -> np.ndarray:
    return np.array(members.read(file).decode("ascii", "replace").split())


def _cifar10(members: Members) -> dict[str, np.ndarray]:
    arrays = _cifar(members, ("labels",), [f"data_batch_{part}.bin" for part in range(1, 6)], "test_batch.bin")
    return arrays | {"class_names": _lines(members, "batches.meta.txt")}


def _cifar100(members: Members) -> dict[str, np.ndarray]:
    arrays = _cifar(members, ("coarse", "fine"), ["train.bin"], "test.bin")
    names = {f"{level}_names": _lines(members, f"{level}_label_names.txt") for level in ("fine", "coarse")}
    return arrays | names


def _har(members: Members) -> dict[str, np.ndarray]:
    def numbers(part: str, file: str) -> np.ndarray:
        name = f"{part}/{file}_{part}.txt"
        try:
            return np.array(members.read(name).split(), dtype=np.float32)
        except ValueError as error:
            raise FedloomError(f"{members.source}: '{name}' holds something that is not a number.") from error

    signals, labels, subjects, tests = [], [], [], []
    for part in ("train", "test"):
        label = numbers(part, "y").astype(np.int64) - 1
        subject = numbers(part, "subject").astype(np.int64)
        channels = [numbers(part, f"Inertial Signals/{channel}") for channel in CHANNELS]
        if len(subject) != len(label) or any(len(channel) != 128 * len(label) for channel in channels):
            raise FedloomError(f"{members.source}: the tables of '{part}' differ in length: download it again.")
        signals.append(np.stack([channel.reshape(-1, 128) for channel in channels], axis=1).astype(np.float16))
        labels.append(label.astype(np.uint8))
        subjects.append(subject.astype(np.uint8))
        tests.append(np.full(len(label), part == "test"))
    return {
        "signals": np.concatenate(signals),
        "labels": np.concatenate(labels),
        "subject": np.concatenate(subjects),
        "uci_test": np.concatenate(tests),
        "channel_names": np.array(CHANNELS),
        "class_names": np.array(ACTIVITIES),
    }


def _signs(members: Members) -> dict[str, np.ndarray]:
    """GTSRB: training images by class and track; the official test set if it and its labels are beside them.

    Without an official test set every fifth track of a class is for testing, so that no sign is in both parts.
    """
    images, labels, tracks = [], [], []
    for name in members.names(".ppm"):
        folder, _, file = name.rpartition("/")
        kind = folder.rpartition("/")[2]
        if kind.isdigit():
            images.append(_picture(members, name))
            labels.append(int(kind))
            tracks.append(int(file.split("_")[0]))
    if not images:
        raise FedloomError(f"{members.source} has no training images (Images/00000/00000_00000.ppm and so on).")
    label, track = np.array(labels, np.uint8), np.array(tracks, np.int16)
    arrays = {"images": np.stack(images), "labels": label, "track": track}
    truth = members.find("GT-final_test.csv")
    if truth is None:
        test = track % 5 == 4
        if not test.any():
            raise FedloomError(f"{members.source} has no test labels (GT-final_test.csv) and fewer than five tracks.")
        return {f"{p}_{n}": a[m] for p, m in (("train", ~test), ("test", test)) for n, a in arrays.items()}
    rows = list(csv.DictReader(io.StringIO(members.read(truth).decode("ascii", "replace")), delimiter=";"))
    tested = {f"test_{name}": array for name, array in _test_set(members, rows).items()}
    return {f"train_{name}": array for name, array in arrays.items()} | tested


def _test_set(members: Members, rows: list[dict[str, str]]) -> dict[str, np.ndarray]:
    try:
        labels = np.array([int(row["ClassId"]) for row in rows], np.uint8)
        names = [members.find(f"Final_Test/Images/{row['Filename']}") for row in rows]
    except (KeyError, ValueError, TypeError) as error:
        raise FedloomError(f"{members.source}: GT-final_test.csv needs the columns Filename and ClassId.") from error
    if None in names or not names:
        raise FedloomError(f"{members.source} has test labels but not all test images (Final_Test/Images/00000.ppm).")
    return {"images": np.stack([_picture(members, str(name)) for name in names]), "labels": labels}


def _picture(members: Members, name: str) -> np.ndarray:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise FedloomError("converting GTSRB needs Pillow: pip install pillow.") from None
    try:
        with Image.open(io.BytesIO(members.read(name))) as image:
            small = image.convert("RGB").resize((32, 32), Image.Resampling.BILINEAR)
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise FedloomError(f"{members.source}: '{name}' is not a readable image.") from error
    return np.asarray(small, np.uint8).transpose(2, 0, 1)


CONVERTERS: dict[str, Callable[[Members], dict[str, np.ndarray]]] = {
    "mnist": _idx,
    "fashion-mnist": _idx,
    "cifar10": _cifar10,
    "cifar100": _cifar100,
    "har": _har,
    "gtsrb": _signs,
}
