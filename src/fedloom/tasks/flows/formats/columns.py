"""The arrays of a packed file, checked as they are taken: a number that points at nothing is named, not followed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.data.folder import read_arrays


class Columns:
    """The arrays of one packed file."""

    def __init__(self, path: Path, needed: Sequence[str]) -> None:
        self.path = path
        self._arrays = read_arrays(path, needed, ())

    def wrong(self, name: str, what: str) -> FedloomError:
        """The error of one array."""
        return FedloomError(f"{self.path}: the array '{name}' {what}: make or download the file again.")

    def array(self, name: str, kinds: str, length: int | None = None) -> np.ndarray:
        """One array as it is: of a kind (numpy's letters), with one dimension, as long as it should be."""
        found = self._arrays[name]
        if found.ndim != 1 or found.dtype.kind not in kinds:
            raise self.wrong(name, f"is not a plain list of {'texts' if kinds == 'U' else 'numbers'}")
        if length is not None and len(found) != length:
            raise self.wrong(name, f"has {len(found):,} entries and not {length:,}")
        return found

    def numbers(self, name: str, length: int | None = None, below: int | None = None, least: int = 0) -> list[int]:
        """Whole numbers, all of them from ``least`` and below a bound."""
        found = self.array(name, "iu", length)
        if len(found) and (int(found.min()) < least or (below is not None and int(found.max()) >= below)):
            bound = "" if below is None else f" to {below - 1:,}"
            raise self.wrong(name, f"has numbers outside {least}{bound}")
        numbers: list[int] = found.tolist()
        return numbers

    def ranges(self, name: str, length: int | None = None) -> tuple[list[tuple[int, int]], int]:
        """Where each thing's part of a list begins and ends, and how long that list must be."""
        found = self.array(name, "iu", None if length is None else length + 1).astype(np.int64)
        if not len(found) or found[0] != 0 or (np.diff(found) < 0).any():
            raise self.wrong(name, "does not go up from 0")
        return list(pairwise(found.tolist())), int(found[-1])

    def local(self, name: str, inside: list[tuple[int, int]], whole: list[tuple[int, int]]) -> list[int]:
        """Numbers of things within their own range of ``whole``: the nodes that edges join."""
        found = self.array(name, "iu", inside[-1][1] if inside else 0).astype(np.int64)
        sizes = np.array([last - first for first, last in whole], np.int64)
        room = np.repeat(sizes, [last - first for first, last in inside])
        if ((found < 0) | (found >= room)).any():
            raise self.wrong(name, "names nodes that are not there")
        numbers: list[int] = found.tolist()
        return numbers
