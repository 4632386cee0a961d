"""Keys that are missing: the client or the group of a sample that nobody filled in.

NumPy makes a client of its own of every NaN, or the text ``nan`` of it, and pandas has two more values of the kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.data.readers.csv import MISSING

PANDAS = frozenset({"NaTType", "NAType"})
"""The classes of pandas' missing values, which compare with nothing."""
SHOWN = 5


def check_keys(keys: Any, what: str, instead: str, where: str) -> None:
    """Raise an error that says how many keys are missing, and in which rows.

    Args:
        keys: A key per sample, in any array or list.
        what: What a key names, for instance ``client``.
        instead: What to do about it.
        where: What errors call the data.
    """
    rows = [row for row, key in enumerate(_objects(keys), start=1) if _is_missing(key)]
    if rows:
        shown = ", ".join(map(str, rows[:SHOWN])) + (", ..." if len(rows) > SHOWN else "")
        of = f"row {shown} has" if len(rows) == 1 else f"{len(rows):,} rows ({shown}) have"
        raise FedloomError(f"{where}: {of} no {what}: {instead}.")


def _objects(keys: Any) -> list[Any]:
    """The keys as Python objects: an array of texts would have made the text ``nan`` of NaN."""
    if isinstance(keys, list | tuple):
        return list(keys)
    array = np.asarray(keys)
    if array.dtype.kind in "iub":
        return []
    return [None if found else 0 for found in np.isnat(array)] if array.dtype.kind in "mM" else array.tolist()


def _is_missing(key: Any) -> bool:
    if key is None or type(key).__name__ in PANDAS:
        return True
    if isinstance(key, str):
        return key.strip() in MISSING
    return isinstance(key, float | np.floating) and bool(np.isnan(key))
