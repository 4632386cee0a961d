"""Data that are Python objects already: torch datasets, Hugging Face datasets, pandas frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from fedloom.core.errors import FedloomError

Arrays = dict[str, Any]
"""Arrays by the names of ``from_arrays``: x, y and, where they are known, client and group."""


def is_frame(data: object) -> bool:
    """Whether an object is a pandas frame."""
    return type(data).__module__.startswith("pandas") and hasattr(data, "columns")


def is_huggingface(data: object) -> bool:
    """Whether an object is a dataset of Hugging Face's ``datasets``, or a dictionary of their splits."""
    return type(data).__module__.split(".")[0] == "datasets"


def is_torch_dataset(data: object) -> bool:
    """Whether an object is a torch dataset whose samples have numbers."""
    return isinstance(data, Dataset) and hasattr(data, "__len__") and hasattr(data, "__getitem__")


def arrays_of_dataset(dataset: Any, target: str, client: str, group: str | None, ignore: Sequence[str]) -> Arrays:
    """The samples of a torch dataset as arrays. All of them are read.

    Args:
        dataset: A dataset of ``(x, y)``, ``(x, y, client)`` or dictionaries.
        target: The key of the target, where samples are dictionaries.
        client: The key of the client; the usual one may be missing.
        group: The key of what a sample belongs to.
        ignore: Keys that are left out.
    """
    where = type(dataset).__name__
    if len(dataset) == 0:
        raise FedloomError(f"{where} has no samples: give at least two.")
    samples = [dataset[place] for place in range(len(dataset))]
    if isinstance(samples[0], Mapping):
        return _by_role({key: _stack([s[key] for s in samples], f"{where}, {key}") for key in samples[0]},
                        target, client, group, ignore, where)  # fmt: skip
    if not isinstance(samples[0], tuple | list) or len(samples[0]) not in (2, 3):
        raise FedloomError(f"{where}: a sample is {type(samples[0]).__name__}: give (x, y), (x, y, client) or a dict.")
    if group is not None:
        raise FedloomError(f"group='{group}': the samples of {where} are tuples, which have no keys: give dicts.")
    columns = [_stack([sample[place] for sample in samples], where) for place in range(len(samples[0]))]
    return dict(zip(("x", "y", "client"), columns, strict=False))


def arrays_of_huggingface(
    dataset: Any, target: str, client: str, group: str | None, ignore: Sequence[str]
) -> Arrays | None:
    """The samples of a Hugging Face dataset as arrays; None if it is a plain table, which has no arrays.

    Args:
        dataset: One split of a dataset.
        target: The column of the target.
        client: The column of the client; the usual one may be missing.
        group: The column of what a sample belongs to.
        ignore: Columns that are left out.
    """
    if hasattr(dataset, "keys"):
        raise FedloomError(
            f"this is a dictionary of datasets ({', '.join(dataset.keys())}): give one of them, or join them with "
            "datasets.concatenate_datasets."
        )
    named = {target, client, group, *ignore}
    inputs = [feature for name, feature in dataset.features.items() if name not in named]
    if all(type(feature).__name__ in ("Value", "ClassLabel") for feature in inputs):
        return None
    rows = dataset.with_format("numpy")[:]
    columns = {name: _images(np.asarray(rows[name]), dataset.features[name]) for name in dataset.column_names}
    for name, array in columns.items():
        if name not in named and array.dtype == object:
            raise FedloomError(f"the dataset's column '{name}' has samples of different shapes: give one shape.")
    return _by_role(columns, target, client, group, ignore, "the dataset")


def _images(array: np.ndarray, feature: Any) -> np.ndarray:
    """Images with their channels in front; anything else as it is."""
    if type(feature).__name__ != "Image":
        return array
    return array[:, None] if array.ndim == 3 else np.moveaxis(array, -1, 1)


def _by_role(
    columns: Mapping[str, np.ndarray], target: str, client: str, group: str | None, ignore: Sequence[str], where: str
) -> Arrays:
    for name in (target, *([] if client == "client" else [client]), *([] if group is None else [group]), *ignore):
        if name not in columns:
            raise FedloomError(f"{where} has no column '{name}': it has {', '.join(columns)}.")
    inputs = {name: array for name, array in columns.items() if name not in {target, client, group, *ignore}}
    flat = [name for name, array in inputs.items() if array.ndim < 2]
    if flat or not inputs:
        what = f"the column '{flat[0]}' of {where} is not an array" if flat else f"{where} has no inputs"
        raise FedloomError(f"{what}: ignore it, or give samples with input arrays only.")
    found: Arrays = {"x": next(iter(inputs.values())) if len(inputs) == 1 else inputs, "y": columns[target]}
    found |= {"client": columns[client]} if client in columns else {}
    return found | ({"group": columns[group]} if group is not None else {})


def _stack(values: Sequence[Any], where: str) -> np.ndarray:
    """One array of all samples' values."""
    if isinstance(values[0], torch.Tensor):
        values = [value.detach().numpy() for value in values]
    try:
        return np.stack([np.asarray(value) for value in values])
    except ValueError:
        raise FedloomError(f"{where}: samples differ in shape: give one shape for all.") from None
