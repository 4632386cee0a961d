"""Data that are Python objects already: torch datasets, Hugging Face datasets, pandas frames, pairs of arrays.

Each becomes arrays by the names of ``from_arrays``, or a table. Several of them, one per client or per part, are joined
by ``data/readers/objects_per_client.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, Dataset, RandomSampler, SequentialSampler

from fedloom.core.errors import FedloomError
from fedloom.data.stack_samples import stack_samples
from fedloom.data.tables.labels import are_label_lists, column_of_lists
from fedloom.data.tables.table_columns import TableColumns
from fedloom.data.tables.tables import Table, table_of_frame

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


def is_pair_of_arrays(data: object) -> bool:
    """Whether an object is inputs and targets ``(x, y)``: two arrays, or two tensors."""
    return isinstance(data, tuple) and len(data) == 2 and all(getattr(one, "ndim", 0) > 0 for one in data)


def is_readable(data: object) -> bool:
    """Whether an object holds the samples of one client or part."""
    return (
        is_frame(data)
        or is_torch_dataset(data)
        or isinstance(data, DataLoader)
        or is_pair_of_arrays(data)
        or (is_huggingface(data) and not hasattr(data, "keys"))
    )


def read_object(data: Any, columns: TableColumns, where: str = "") -> Arrays | Table:
    """The samples of an object as arrays, or as a table where they have plain columns.

    Args:
        data: What ``is_readable`` says yes to.
        columns: The keys or columns that are no inputs.
        where: What an error calls it, if not by its class.
    """
    if isinstance(data, DataLoader):
        data = _dataset_of(data, where or "the DataLoader")
    if is_frame(data):
        return table_of_frame(data, where or "the frame")
    if is_huggingface(data):
        arrays = arrays_of_huggingface(data, columns, where or "the dataset")
        return table_of_frame(_with_class_names(data), where or "the dataset") if arrays is None else arrays
    if is_pair_of_arrays(data):
        return {"x": data[0], "y": data[1]}
    return arrays_of_dataset(data, columns, where or type(data).__name__)


def _dataset_of(loader: DataLoader[Any], where: str) -> Any:
    """The dataset of a loader, if the loader does not choose among its samples."""
    if not is_torch_dataset(loader.dataset) and not is_huggingface(loader.dataset):
        raise FedloomError(
            f"{where} draws from a {type(loader.dataset).__name__}, which has no length: give a Dataset."
        )
    if not isinstance(loader.sampler, SequentialSampler | RandomSampler):
        raise FedloomError(
            f"{where} chooses samples with a {type(loader.sampler).__name__}: give the dataset of those samples, for "
            "instance torch.utils.data.Subset(dataset, positions)."
        )
    return loader.dataset


def arrays_of_dataset(dataset: Any, names: TableColumns, where: str) -> Arrays:
    """The samples of a torch dataset as arrays. All of them are read.

    Args:
        dataset: A dataset of ``(x, y)`` or ``(x, y, client)``, whose x may be a dict, or of dictionaries.
        names: Which keys are what, where samples are dictionaries.
        where: What an error calls it.
    """
    if len(dataset) == 0:
        raise FedloomError(f"{where} has no samples: give at least two.")
    samples = [dataset[place] for place in range(len(dataset))]
    if isinstance(samples[0], Mapping):
        _require(samples[0], names, where)
        return _by_role(_by_key(samples, where, names.ignore), names, where)
    if not isinstance(samples[0], tuple | list) or len(samples[0]) not in (2, 3):
        raise FedloomError(f"{where}: a sample is {type(samples[0]).__name__}: give (x, y), (x, y, client) or a dict.")
    if names.group is not None:
        raise FedloomError(f"group='{names.group}': the samples of {where} are tuples, which have no keys: give dicts.")
    for place, sample in enumerate(samples, start=1):
        if not isinstance(sample, tuple | list) or len(sample) != len(samples[0]):
            raise FedloomError(
                f"{where}: sample {place} is another {type(sample).__name__} than the first one, which has "
                f"{len(samples[0])} entries: give all samples the same form."
            )
    inputs, *others = ([sample[place] for sample in samples] for place in range(len(samples[0])))
    found: Arrays = {"x": _by_key(inputs, where) if isinstance(inputs[0], Mapping) else stack_samples(inputs, where)}
    called = ("y", "client")
    return found | {name: _values(one, f"{where}, {name}") for name, one in zip(called, others, strict=False)}


def _values(samples: Sequence[Any], where: str) -> np.ndarray:
    """The values of a key as an array; lists of names stay lists."""
    return column_of_lists(samples) if are_label_lists(samples) else stack_samples(samples, where)


def _by_key(samples: Sequence[Any], where: str, ignore: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """The values of dictionaries, which must all have the same keys, as an array per key."""
    for place, sample in enumerate(samples, start=1):
        if not isinstance(sample, Mapping) or set(sample) != set(samples[0]):
            keys = ", ".join(map(str, sample)) if isinstance(sample, Mapping) else f"a {type(sample).__name__}"
            raise FedloomError(
                f"{where}: sample {place} has not the keys of the first one, {', '.join(map(str, samples[0]))}, but "
                f"{keys}: give all samples the same keys."
            )
    kept = [key for key in samples[0] if key not in ignore]
    return {key: _values([sample[key] for sample in samples], f"{where}, {key}") for key in kept}


def arrays_of_huggingface(dataset: Any, names: TableColumns, where: str) -> Arrays | None:
    """The samples of a Hugging Face dataset as arrays; None if it is a plain table, which has no arrays.

    Args:
        dataset: One split of a dataset.
        names: The columns that are no inputs.
        where: What an error calls it.
    """
    named = {names.target, names.client, names.group, *names.ignore}
    inputs = [feature for name, feature in dataset.features.items() if name not in named]
    if all(type(feature).__name__ in ("Value", "ClassLabel") for feature in inputs):
        return None
    _require(dataset.column_names, names, where)
    rows = dataset.with_format("numpy")[:]
    kept = [name for name in dataset.column_names if name not in names.ignore]
    columns = {name: _images(_column(rows[name], f"{where}, {name}"), dataset.features[name]) for name in kept}
    unequal = [name for name in kept if columns[name].dtype == object and name not in named]
    if unequal and len(inputs) > 1:
        raise FedloomError(
            f"{where}: the column '{unequal[0]}' has samples of unequal length, which must be the only input: ignore "
            "the other columns, or pad it."
        )
    return _by_role(columns, names, where)


def _column(values: Any, where: str) -> np.ndarray:
    """A column as the dataset gives it; one of arrays of several shapes is checked sample by sample."""
    if are_label_lists(values):
        return column_of_lists(values)
    found = np.asarray(values) if isinstance(values, np.ndarray) or not isinstance(values, list) else None
    if found is not None and (found.dtype != object or not len(found) or not hasattr(found[0], "shape")):
        return found
    return stack_samples(list(values), where)


def _images(array: np.ndarray, feature: Any) -> np.ndarray:
    """Images with their channels in front; anything else as it is."""
    if type(feature).__name__ != "Image":
        return array
    return array[:, None] if array.ndim == 3 else np.moveaxis(array, -1, 1)


def _with_class_names(dataset: Any) -> Any:
    """A Hugging Face dataset as a frame, with the names of classes in place of their numbers."""
    frame = dataset.to_pandas()
    for name, feature in dataset.features.items():
        if type(feature).__name__ == "ClassLabel":
            frame[name] = [None if number < 0 else feature.names[number] for number in frame[name]]
    return frame


def _require(there: Collection[str], names: TableColumns, where: str) -> None:
    """Raise an error if a column that is named is not there; the usual client column may be missing."""
    client = [] if names.client == "client" else [names.client]
    for name in (names.target, *client, *([] if names.group is None else [names.group]), *names.ignore):
        if name not in there:
            raise FedloomError(f"{where} has no column '{name}': it has {', '.join(there)}.")


def _by_role(columns: Mapping[str, np.ndarray], names: TableColumns, where: str) -> Arrays:
    """Columns that are not ignored as inputs, targets, clients and groups."""
    others = {names.target, names.client, names.group}
    inputs = {name: array for name, array in columns.items() if name not in others}
    flat = [name for name, array in inputs.items() if array.ndim < 2 and array.dtype != object]
    if flat or not inputs:
        what = f"the column '{flat[0]}' of {where} is not an array" if flat else f"{where} has no inputs"
        raise FedloomError(f"{what}: ignore it, or give samples with input arrays only.")
    found: Arrays = {"x": next(iter(inputs.values())) if len(inputs) == 1 else inputs, "y": columns[names.target]}
    found |= {"client": columns[names.client]} if names.client in columns else {}
    return found | ({} if names.group is None else {"group": columns[names.group]})
