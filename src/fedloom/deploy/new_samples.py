"""New samples for ``fedloom predict``: a table, an NPZ file or images under a model's schema, with or without labels.

Columns are matched by name, in any order. A table may have the label column, with empty cells; any other column that
the model does not know is an error, so that a misspelt one is noticed. Rows are counted from 1, without the header.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.inputs import Inputs
from fedloom.data.folder import read_arrays
from fedloom.data.read import check_finite
from fedloom.data.readers.csv import csv_rows, parse_numbers
from fedloom.data.readers.image_folder import IMAGE_ENDINGS, read_image
from fedloom.data.readers.parquet import parquet_rows
from fedloom.data.readers.tables import TABLE_ENDINGS
from fedloom.data.readers.under_schema import class_numbers, conforming_inputs
from fedloom.deploy.saved_model import SavedModel

NAMED = 8
"""How many columns an error names."""
UNLABELLED = -1


@dataclass(frozen=True)
class NewSamples:
    """Raw inputs, the name of each sample (its row or file), and its class (-1: no label)."""

    inputs: Inputs
    names: list[int] | list[str]
    classes: Tensor
    label_source: str
    """Where the labels come from, as a verb phrase: "have a label in y"."""


def read_new_samples(paths: Sequence[Path], saved: SavedModel) -> NewSamples:
    """The samples of a file, of a folder of images, or of some image files.

    Args:
        paths: One table, one NPZ file, one folder, or image files.
        saved: The model that will predict them.
    """
    for path in paths:
        if not path.exists():
            raise FedloomError(f"{path} does not exist: give a .csv, .tsv, .npz or .parquet file, or images.")
    first, several = paths[0], [column.name for column in saved.schema.inputs]
    if several and (len(paths) > 1 or first.suffix.lower() != ".npz"):
        raise FedloomError(f"this model needs the input columns {', '.join(several)}: give one .npz file with them.")
    if len(paths) == 1 and first.suffix.lower() in TABLE_ENDINGS:
        return _table(first, saved)
    if len(paths) == 1 and first.suffix.lower() == ".npz":
        return _arrays(first, saved)
    if len(paths) == 1 and first.is_dir():
        found = sorted(path for path in first.rglob("*") if path.suffix.lower() in IMAGE_ENDINGS)
        if not found:
            raise FedloomError(f"{first} has no images: give a folder with images, a table or an NPZ file.")
        return _images(found, [path.relative_to(first) for path in found], saved)
    for path in paths:
        if path.suffix.lower() not in IMAGE_ENDINGS:
            also = "beside others " if len(paths) > 1 else ""
            raise FedloomError(f"{path} is not supported {also}here: give one .csv, .tsv, .npz or .parquet, or images.")
    return _images(paths, paths, saved)


def _table(path: Path, saved: SavedModel) -> NewSamples:
    features = saved.schema.features
    if not features:
        shape = ", ".join(["n", *map(str, saved.schema.shape)])
        raise FedloomError(
            f"{path.name} has named columns, but this model's inputs have no names: give an .npz with an array x "
            f"of shape ({shape})."
        )
    inputs: list[np.ndarray] = []
    words: list[str] = []
    pieces = parquet_rows(path) if path.suffix.lower() == ".parquet" else csv_rows(path)
    header = list(next(pieces)[0])
    _check_header(header, saved, path.name)
    places = [header.index(name) for name in features]
    label = header.index(saved.target) if saved.target in header else None
    for rows in pieces:
        seen = sum(map(len, inputs))
        inputs.append(parse_numbers(rows, places, features, seen, path.name))
        words += ["" if label is None else row[label].strip() for row in rows]
    if not inputs:
        raise FedloomError(f"{path.name} has a header and no rows: there is nothing to predict.")
    x = np.concatenate(inputs)
    check_finite(x, features, path.name)
    return _new_samples({"x": x}, np.array(words), f"have a label in column '{saved.target}'", saved, path.name)


def _check_header(header: Sequence[str], saved: SavedModel, where: str) -> None:
    features = saved.schema.features
    for name in header:
        if list(header).count(name) > 1:
            raise FedloomError(f"{where} has the column '{name}' twice: give each column its own name.")
    missing = [name for name in features if name not in header]
    if missing:
        raise FedloomError(
            f"{where} has no column '{missing[0]}', which this model needs: its features are {_some(features)}."
        )
    extra = [name for name in header if name not in {*features, saved.target, *saved.others}]
    if extra:
        raise FedloomError(
            f"{where} has the column '{extra[0]}', which this model does not know: remove it, or rename it to one of "
            f"{_some(features)}."
        )


def _arrays(path: Path, saved: SavedModel) -> NewSamples:
    columns = [column.name for column in saved.schema.input_columns]
    arrays = read_arrays(path, columns, ["y"])
    y, several = arrays.get("y"), {name: arrays[name] for name in columns}
    for name, x in several.items():
        _check_array(x, name, y, f"{path.name}, column {name}" if saved.schema.inputs else path.name)
    if len({len(x) for x in several.values()}) > 1:
        shown = ", ".join(f"{name} has {len(x)}" for name, x in several.items())
        raise FedloomError(f"{path.name}: the input columns differ in length ({shown}): give one entry per sample.")
    labels = np.full(len(several[columns[0]]), "") if y is None else y
    return _new_samples(several, labels, "have a label in y", saved, path.name)


def _check_array(x: np.ndarray, name: str, y: np.ndarray | None, where: str) -> None:
    if x.ndim < 2 or not len(x) or x.dtype.kind not in "fiub":
        raise FedloomError(f"{where}: {name} is {x.dtype} of shape {x.shape}: give numbers, one row per sample.")
    if y is not None and y.shape != x.shape[:1]:
        raise FedloomError(f"{where}: {len(x)} inputs and labels of shape {y.shape}: give one label each, or none.")
    check_finite(x, (), where)


def _images(paths: Sequence[Path], called: Sequence[Path], saved: SavedModel) -> NewSamples:
    """Images; a folder with the name of a class is the label of its images."""
    schema = saved.schema
    if len(schema.shape) != 3:
        raise FedloomError(f"this model needs inputs of shape {schema.shape}, not images: give a table or an NPZ file.")
    names = [path.as_posix() for path in called]
    x = np.stack([read_image(path, name, schema.shape) for path, name in zip(paths, names, strict=True)])
    if schema.input_type.is_floating_point:
        x = x / np.float32(255)
    folders = [path.parent.name for path in called]
    words = [folder if folder in saved.labels else "" for folder in folders]
    samples = _new_samples({"x": x}, np.array(words), "lie in a folder with the name of a class", saved, names[0])
    return replace(samples, names=names)


def _new_samples(
    arrays: Mapping[str, np.ndarray], labels: np.ndarray, label_source: str, saved: SavedModel, where: str
) -> NewSamples:
    """Samples of an array per input column."""
    columns = {}
    for column in saved.schema.input_columns:
        x = arrays[column.name]
        kind = np.float32 if x.dtype.kind in "fb" else np.uint8 if x.dtype == np.uint8 else np.int64
        raw = torch.from_numpy(np.ascontiguousarray(x, dtype=kind))
        columns[column.name] = conforming_inputs(raw, column, saved.schema, where)
    inputs = columns if saved.schema.inputs else columns["x"]
    return NewSamples(inputs, list(range(1, len(labels) + 1)), _classes(labels, saved, where), label_source)


def _classes(labels: np.ndarray, saved: SavedModel, where: str) -> Tensor:
    """The number of each label's class; an empty label has none."""
    empty = labels == "" if labels.dtype.kind == "U" else np.zeros(len(labels), dtype=bool)
    if empty.all():
        return torch.full((len(labels),), UNLABELLED)
    if empty.any():  # a class takes the place of an empty label, so that an error names the right row
        filler = "0" if labels[~empty][0].isdecimal() else saved.labels[0]
        labels = np.where(empty, filler, labels)
    return torch.from_numpy(np.where(empty, UNLABELLED, class_numbers(labels, saved.schema, where)))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
