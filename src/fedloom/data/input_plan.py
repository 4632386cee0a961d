"""What is done to the inputs of a user's data: one plan, made once, for everything that follows.

The columns of a table, images and sounds each have a plan of their own class. Whoever reads samples asks the plan and
not what kind of data it is for. A plan reads a path as a table: of a folder of images, a row is a file. It is stored
with a model and in the schema of a deployment, so ``predict`` and sites do what the training did.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from fedloom.data.tables.table_columns import TableColumns
from fedloom.data.tables.tables import Table


class InputPlan(Protocol):
    """What is done to the inputs of samples. A plan is a pydantic model, and ``DataSchema.plan`` names its class."""

    @property
    def what(self) -> str:
        """What a sample is, as a noun: row, image, sound."""
        ...

    @property
    def lines(self) -> list[str]:
        """What is done, in a line each: the notes of a federation."""
        ...

    @property
    def columns_needed(self) -> list[str]:
        """The columns of a table that the inputs are made of, in the model's order; none if samples are files."""
        ...

    @property
    def columns_known(self) -> list[str]:
        """The columns that a table may have besides targets, clients and groups: those needed, and those left out."""
        ...

    @property
    def features(self) -> list[str]:
        """The names of the model's features, for errors; none where pixels and samples of a sound have no names."""
        ...

    @property
    def indicators(self) -> list[bool]:
        """Which features (or channels) stay as they are, since they are 0 or 1; the others are standardised."""
        ...

    @property
    def words(self) -> int:
        """The number of tokens that inputs are made of, padding and unknown ones included; 0 if they are not words."""
        ...

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings of files of which each is a sample; none if samples are rows."""
        ...

    @property
    def reads_npz(self) -> bool:
        """Whether ``read_table`` reads an NPZ file; otherwise the arrays of such a file are inputs as they are."""
        ...

    @property
    def is_plain(self) -> bool:
        """Whether the names of the columns say all that a schema needs."""
        ...

    @property
    def usual_model(self) -> str | None:
        """The model for such inputs, where it is another than for rows of numbers."""
        ...

    def read_table(self, path: Path, columns: TableColumns) -> Table:
        """A file or folder as a table with a row per sample, or an error that says what the plan reads instead.

        Args:
            path: The user's file or folder.
            columns: The columns that are not inputs; their cells stay texts.
        """
        ...

    def check_columns(self, inputs: Sequence[str], where: str) -> None:
        """Raise an error if the columns that may be inputs are not those of the plan.

        Args:
            inputs: The columns of a table, without targets, clients and groups.
            where: What an error calls the table.
        """
        ...

    def without_unreadable(self, table: Table) -> tuple[Table, str]:
        """The rows whose files can be read, and a note on the others, empty without any.

        Args:
            table: What ``read_table`` returned, or some of its rows.
        """
        ...

    def encode(self, table: Table) -> np.ndarray:
        """The inputs of a table's rows; the first axis is the sample.

        Args:
            table: What ``read_table`` returned, or some of its rows.
        """
        ...
