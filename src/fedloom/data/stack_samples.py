"""One array of many samples, or a sentence that says which sample does not fit, and what to do.

Samples come as lists, arrays or tensors. Where they are sequences of unequal length, they are no one array
(``data/sequences.py`` pads them); here they stay a column of arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from fedloom.core.errors import FedloomError
from fedloom.files.limits import check_bytes

Shape = tuple[int, ...]


def stack_samples(values: Sequence[Any], where: str) -> np.ndarray:
    """One array of all samples' values; where only the first axes of these differ, a column of their arrays.

    Args:
        values: The value of each sample: a number, a text, an array or a tensor.
        where: What an error calls them.
    """
    arrays = [_as_array(value, place, where) for place, value in enumerate(values, start=1)]
    if len({array.shape for array in arrays}) == 1:
        return np.stack(arrays)
    if not are_sequences(arrays):
        raise FedloomError(f"{where}: {unequal_shapes([array.shape for array in arrays])}.")
    return column_of(arrays)


def column_of(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays of any shapes as the objects of a column."""
    found = np.empty(len(arrays), dtype=object)
    found[:] = arrays
    return found


def are_sequences(arrays: Sequence[np.ndarray]) -> bool:
    """Whether arrays are (steps, channels) with the same channels and not all with the same number of steps.

    Args:
        arrays: The samples.
    """
    shapes = {array.shape for array in arrays}
    return len(shapes) > 1 and len({shape[1:] for shape in shapes}) == 1 and len(next(iter(shapes))) == 2


def unequal_shapes(shapes: Sequence[Shape]) -> str:
    """Which sample has another shape than most, and what to do, as a main clause.

    Args:
        shapes: The shape of each sample.
    """
    if all(len(shape) == 2 for shape in shapes) and len({shape[0] for shape in shapes}) > 1:
        (channels, _), *_ = Counter(shape[1] for shape in shapes).most_common(1)
        place = next(place for place, shape in enumerate(shapes, start=1) if shape[1] != channels)
        return (
            f"sample {place} has shape {shapes[place - 1]}, and most others {channels} entries along the second axis: "
            "give sequences as (steps, channels) with the same channels"
        )
    counts = Counter(shapes)
    usual, many = counts.most_common(1)[0]
    place = next(place for place, shape in enumerate(shapes, start=1) if shape != usual)
    others = "the others" if many == len(shapes) - 1 else "most others"
    odd = shapes[place - 1]
    if len(odd) == len(usual) == 2 and odd[0] == usual[0]:
        remedy = "sequences of unequal length are (steps, channels) each, so turn these around, or pad them"
    elif len(odd) == len(usual) == 1:
        remedy = "give one shape for all samples; a series of unequal length is an array (steps, 1)"
    elif len(odd) == len(usual) == 3:
        remedy = "resize or pad them to one shape"
    else:
        remedy = "give one shape for all samples"
    return f"sample {place} has shape {odd}, and {others} {usual}: {remedy}"


def dense_array(x: Any, where: str) -> Any:
    """A sparse matrix as an array, as far as this machine can hold it; anything else as it is.

    Args:
        x: A matrix of SciPy, a tensor, or anything else.
        where: What an error calls it.
    """
    if hasattr(x, "toarray") and hasattr(x, "nnz"):
        check_bytes(f"{where}, as an array that is not sparse,", int(np.prod(x.shape)) * np.dtype(x.dtype).itemsize)
        return x.toarray()
    if isinstance(x, torch.Tensor):
        return x.detach().cpu().numpy()
    return x


def _as_array(value: Any, place: int, where: str) -> np.ndarray:
    """The value of one sample as an array of numbers or texts."""
    try:
        found = np.asarray(dense_array(value, f"{where}: sample {place}"))
    except (TypeError, ValueError):
        found = np.empty(0, dtype=object)
    if found.dtype.hasobject:
        what = "None" if value is None else f"a {type(value).__name__}"
        raise FedloomError(f"{where}: sample {place} is {what} that is no array of numbers: give numbers of one shape.")
    return found
