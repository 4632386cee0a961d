"""The plan of data whose samples are files: what images and sounds have in common.

A folder or a table of paths is read as a table with a row per file (``data/media/file_table.py``). Encoding it opens
the files, one after the other. What is read from a file is bounded before it is read.
"""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict

from fedloom.core.errors import FedloomError
from fedloom.data.media.file_table import NAME, PATH, read_file_table
from fedloom.data.tables.table_columns import TableColumns
from fedloom.data.tables.tables import Table
from fedloom.files.limits import check_bytes

MOST_NAMED = 5
"""How many files that are left out a note names."""


class Unreadable(FedloomError):  # noqa: N818
    """A file that is not what it should be; with ``skip_unreadable`` it is left out."""


class FilePlan(BaseModel, ABC):
    """What is done to each file; a subclass says what it is of, and reads one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @property
    @abstractmethod
    def what(self) -> str:
        """What a file is, as a noun: image, sound."""

    @property
    def reads_npz(self) -> bool:
        """No: it reads files and tables of their paths."""
        return False

    @property
    @abstractmethod
    def endings(self) -> tuple[str, ...]:
        """The endings of such files."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""

    @property
    @abstractmethod
    def dtype(self) -> type[np.generic]:
        """The type of inputs."""

    @property
    @abstractmethod
    def lines(self) -> list[str]:
        """What is done to each file."""

    @property
    @abstractmethod
    def usual_model(self) -> str:
        """The model for such inputs."""

    @abstractmethod
    def read(self, path: Path, where: str) -> np.ndarray:
        """The input that a file becomes; one that cannot be read is ``Unreadable``.

        Args:
            path: The file, which nobody has looked at yet.
            where: What an error calls it.
        """

    @property
    def columns_needed(self) -> list[str]:
        """None: samples are files."""
        return []

    @property
    def columns_known(self) -> list[str]:
        """The columns of a table of files."""
        return [PATH, NAME]

    @property
    def features(self) -> list[str]:
        """None: pixels and samples of a sound have no names."""
        return []

    @property
    def indicators(self) -> list[bool]:
        """None: every channel is standardised."""
        return []

    @property
    def words(self) -> int:
        """0: inputs are not words."""
        return 0

    @property
    def is_plain(self) -> bool:
        """Never: a schema needs the plan."""
        return False

    def read_table(self, path: Path, columns: TableColumns) -> Table:
        """A folder with a sub-folder per class, or a table of paths, as a table of files."""
        return read_file_table(path, columns, self.what, self.endings)

    def check_columns(self, inputs: Sequence[str], where: str) -> None:
        """Nothing: ``read_table`` keeps no other column."""

    def without_unreadable(self, table: Table) -> tuple[Table, str]:
        """The rows whose files can be read, and a note on the others."""
        bad: dict[str, str] = {}
        rows = [row for row, _ in read_each(table, self.read, bad)]
        return table.rows(np.array(rows, dtype=np.int64)), left_out(bad, self.what)

    def encode(self, table: Table) -> np.ndarray:
        """The inputs of a table of files.

        Args:
            table: What ``read_table`` returned, or some of its rows.
        """
        x = self.empty(len(table), table.where)
        for row, made in read_each(table, self.read):
            x[row] = made
        return x

    def empty(self, count: int, where: str) -> np.ndarray:
        """Room for the inputs of some files, where this machine has as much.

        Args:
            count: The number of files.
            where: What an error calls them.
        """
        size = count * int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize
        check_bytes(f"{where}, as {count:,} {self.what}s of shape {self.shape},", size)
        return np.empty((count, *self.shape), self.dtype)


Result = TypeVar("Result")


def read_each(
    table: Table, read: Callable[[Path, str], Result], bad: dict[str, str] | None = None
) -> Iterator[tuple[int, Result]]:
    """The row of each file that can be read, and what is read of it.

    Args:
        table: The files.
        read: Makes something of one file, given its path and what errors call it.
        bad: Where the names of unreadable files go, and what is wrong with them; without it, the first is an error.
    """
    for row, (path, name) in enumerate(zip(table.columns[PATH], table.columns[NAME], strict=True)):
        try:
            made = read(Path(path), name)
        except Unreadable as error:
            if bad is None:
                raise
            bad[name] = str(error)
        else:
            yield row, made


def left_out(bad: Mapping[str, str], what: str) -> str:
    """A note on files that cannot be read: how many, and the names of the first; empty without any.

    Args:
        bad: Their names.
        what: What a file is.
    """
    if not bad:
        return ""
    more = f" and {len(bad) - MOST_NAMED} more" if len(bad) > MOST_NAMED else ""
    they = "they" if len(bad) > 1 else "it"
    shown = ", ".join(list(bad)[:MOST_NAMED])
    return f"{count_words(len(bad), what)} left out, since {they} cannot be read: {shown}{more}"


def count_words(number: int, what: str) -> str:
    """A number of things as the beginning of a sentence: ``2 images are``."""
    return f"{number:,} {what}{'s are' if number > 1 else ' is'}"


def check_file(path: Path, where: str, most: int) -> int:
    """The size of a file in bytes; one that is none, is empty or too large is ``Unreadable``.

    Args:
        path: The file; a link to a file is one.
        where: What an error calls it.
        most: How many bytes it may have.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise Unreadable(f"{where} cannot be read ({error.strerror}): correct its path, or remove it.") from None
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable(f"{where} is not a file: remove it.")
    if not os.access(path, os.R_OK):
        raise Unreadable(f"{where} may not be read by you: change its permissions, or remove it.")
    if not found.st_size:
        raise Unreadable(f"{where} is empty: save it again, or remove it.")
    try:
        check_bytes(where, found.st_size, most)
    except FedloomError as error:
        raise Unreadable(str(error)) from None
    return found.st_size
