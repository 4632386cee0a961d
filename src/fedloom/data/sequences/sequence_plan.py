"""What is done to sequences of unequal length: one length by padding, and a last channel that says what is real.

A sample is (steps, channels) as users have it, and (channels + 1, steps) as models get it: each channel is standardised
by the mean and spread of the training samples' real steps, padding is 0 behind the end, and the last channel is 1 at
real steps and 0 at padding. So a model that multiplies by the last channel gives the same outputs however much padding
there is (``models/sequences.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from fedloom.core.errors import FedloomError
from fedloom.data.folder import read_arrays
from fedloom.data.sequences.sequence_settings import Sequences
from fedloom.data.stack_samples import column_of
from fedloom.data.tables.table_columns import TableColumns
from fedloom.data.tables.tables import Table, as_texts, name_list, read_table, table_files

X, LENGTHS = "x", "lengths"
"""The column of sequences in a table with a row per sample; the array of lengths in an NPZ file."""
SEQUENCE_MODEL = "sequence-conv"


def has_lengths(path: Path) -> bool:
    """Whether a file is an NPZ file of sequences of unequal length: with ``x`` and ``lengths``."""
    return path.suffix.lower() == ".npz" and path.is_file() and {X, LENGTHS} <= set(read_arrays(path, (), (X, LENGTHS)))


class SequencePlan(BaseModel):
    """Length, mean and spread of sequences."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sequences: Literal["padded"] = "padded"
    steps: int
    """How many steps a sample has, padding included."""
    mean: tuple[float, ...]
    std: tuple[float, ...]
    channels: tuple[str, ...] = ()
    """The columns of a table with a row per time step; empty where sequences are arrays."""
    series: str = ""
    order: str = ""
    cut: int = 0
    """How many training samples are longer."""

    @property
    def what(self) -> str:
        """A sequence."""
        return "sequence"

    @property
    def lines(self) -> list[str]:
        """The length, and how padding is marked."""
        named = f" ({name_list(self.channels)})" if self.channels else ""
        cut = f", of longer ones the first {self.steps} ({self.cut:,} training samples)" if self.cut else ""
        return [
            f"sequences of unequal length: {len(self.mean)} channels{named} and up to {self.steps} steps{cut}",
            f"models get {len(self.mean) + 1} channels × {self.steps} steps: the last channel is 1 at real steps and 0 "
            "at padding; means and spreads are those of the training samples' real steps",
        ]

    @property
    def columns_needed(self) -> list[str]:
        """The column of sequences, which ``read_table`` makes."""
        return [X]

    @property
    def columns_known(self) -> list[str]:
        """The same."""
        return [X]

    @property
    def features(self) -> list[str]:
        """None: steps have no names."""
        return []

    @property
    def indicators(self) -> list[bool]:
        """All channels stay as they are: the plan has standardised them."""
        return [True] * (len(self.mean) + 1)

    @property
    def words(self) -> int:
        """None."""
        return 0

    @property
    def endings(self) -> tuple[str, ...]:
        """None: a file has many samples."""
        return ()

    @property
    def is_plain(self) -> bool:
        """Never: the length, means and spreads are needed."""
        return False

    @property
    def reads_npz(self) -> bool:
        """Yes, where sequences are arrays."""
        return not self.channels

    @property
    def usual_model(self) -> str:
        """Convolutions and a mean over real steps."""
        return SEQUENCE_MODEL

    def read_table(self, path: Path, columns: TableColumns) -> Table:
        """A table with a row per sample and its sequence in the column ``x``.

        Args:
            path: An NPZ file with ``x`` and ``lengths``, or a table with a row per time step.
            columns: The columns that are not inputs. Of an NPZ file, ``y`` is the target.
        """
        if not self.channels:
            if path.suffix.lower() != ".npz":
                raise FedloomError(f"{path.name}: the task's data are sequences: give an .npz file with x and lengths.")
            return _npz_table(path, columns)
        if not table_files(path):
            raise FedloomError(f"{path.name}: the task's data are a table with a row per time step: give one.")
        table = read_table(path, [*columns.names, self.series], columns.ignore)
        return table_of_series(table, Sequences(self.series, self.order or None), self.channels, columns)

    def check_columns(self, inputs: Sequence[str], where: str) -> None:
        """Nothing: ``read_table`` has made the column.

        Args:
            inputs: The columns of the table.
            where: What an error calls the table.
        """

    def without_unreadable(self, table: Table) -> tuple[Table, str]:
        """All rows: they are read already.

        Args:
            table: A table with a row per sample.
        """
        return table, ""

    def encode(self, table: Table) -> np.ndarray:
        """Samples × (channels + 1) × steps.

        Args:
            table: A table with a row per sample and its sequence in the column ``x``.
        """
        samples = checked_sequences(table.columns[X], table.where)
        found = np.zeros((len(samples), len(self.mean) + 1, self.steps), dtype=np.float32)
        mean, std = np.array(self.mean), np.array(self.std)
        for row, sample in enumerate(samples):
            if sample.shape[1] != len(mean):
                raise FedloomError(
                    f"{table.where}: sample {row + 1} has {sample.shape[1]} channels, but the task has {len(mean)}: "
                    "give (steps, channels)."
                )
            steps = min(len(sample), self.steps)
            found[row, :-1, :steps] = ((sample[:steps] - mean) / std).T
            found[row, -1, :steps] = 1
        return found


def fit_sequences(
    samples: Sequence[np.ndarray], train: np.ndarray, where: str, settings: Sequences | None = None,
    channels: Sequence[str] = (),
) -> SequencePlan:  # fmt: skip
    """The plan of some sequences.

    Args:
        samples: The sequences, (steps, channels) each.
        train: The samples that are training samples; length, means and spreads are theirs.
        where: What an error calls the data.
        settings: What the user says of a table with a row per step.
        channels: The columns of such a table.
    """
    checked = checked_sequences(samples, where)
    own = [checked[place] for place in train]
    widths = {sample.shape[1] for sample in checked}
    if len(widths) > 1:
        place = next(place for place, sample in enumerate(checked) if sample.shape[1] != checked[0].shape[1])
        raise FedloomError(
            f"{where}: sample {place + 1} has {checked[place].shape[1]} channels, and the first one "
            f"{checked[0].shape[1]}: give (steps, channels) with the same channels."
        )
    longest = max(map(len, own))
    steps = longest if settings is None or settings.steps is None else settings.steps
    together = np.concatenate([sample[:steps] for sample in own]).astype(np.float64)
    spread = together.std(0)
    return SequencePlan(
        steps=steps,
        mean=tuple(together.mean(0).tolist()),
        std=tuple(np.where(spread > 1e-12, spread, 1.0).tolist()),
        channels=tuple(channels),
        series="" if settings is None else settings.series,
        order="" if settings is None else settings.order or "",
        cut=sum(len(sample) > steps for sample in own),
    )


def checked_sequences(samples: Iterable[np.ndarray], where: str) -> list[np.ndarray]:
    """Samples of which each is (steps, channels), has a step and is finite; another one is an error.

    Args:
        samples: The sequences.
        where: What an error calls the data.
    """
    found = [np.asarray(sample) for sample in samples]
    for row, sample in enumerate(found, start=1):
        if sample.ndim != 2 or sample.dtype.kind not in "fiub":
            raise FedloomError(
                f"{where}: sample {row} is {sample.dtype} of shape {sample.shape}: give numbers, (steps, channels); a "
                "series of one channel is (steps, 1)."
            )
        if not len(sample):
            raise FedloomError(f"{where}: sample {row} has no steps: leave it out.")
        bad = ~np.isfinite(sample)
        if bad.any():
            step, channel = (int(place) for place in np.argwhere(bad)[0])
            raise FedloomError(
                f"{where}: sample {row}, step {step + 1}, channel {channel + 1} is not a finite number: fill it in."
            )
    return found


def split_sequences(x: np.ndarray, lengths: np.ndarray, where: str) -> list[np.ndarray]:
    """The sequences of an array with their lengths: one after the other, or padded at the end.

    Args:
        x: All steps, (steps of all samples, channels), or (samples, steps, channels) with padding.
        lengths: The number of steps of each sample.
        where: What an error calls the data.
    """
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or not len(lengths) or lengths.min() < 1:
        raise FedloomError(f"{where}: lengths must be a whole number of at least 1 per sample.")
    if x.ndim == 2 and len(x) == lengths.sum():
        return np.split(x, np.cumsum(lengths)[:-1])
    if x.ndim == 3 and len(x) == len(lengths) and lengths.max() <= x.shape[1]:
        return [sample[:length] for sample, length in zip(x, lengths, strict=True)]
    raise FedloomError(
        f"{where}: x has shape {x.shape}, and {len(lengths)} lengths add up to {lengths.sum()}: give x as (all steps, "
        "channels), or padded as (samples, steps, channels)."
    )


def _npz_table(path: Path, columns: TableColumns) -> Table:
    group = [] if columns.group is None else [columns.group]
    arrays = read_arrays(path, [X, LENGTHS, *group], ["y"])
    made = {X: column_of(split_sequences(arrays[X], arrays[LENGTHS], path.name))}
    for name, array in (("y", arrays.get("y")), *((name, arrays[name]) for name in group)):
        if array is None:
            continue
        if array.shape != arrays[LENGTHS].shape:
            raise FedloomError(f"{path.name}: {name} has shape {array.shape}: give one entry per sample.")
        called = columns.target if name == "y" else name
        made[called] = array.astype(np.float64) if array.dtype.kind in "fiub" else array.astype(str).astype(object)
    return Table(made, path.name)


def table_of_series(table: Table, settings: Sequences, channels: Sequence[str], columns: TableColumns) -> Table:
    """A table with a row per sample, its sequence in the column ``x``, from a table with a row per time step.

    Args:
        table: The table with a row per time step.
        settings: Which columns say what a row is a step of, and when.
        channels: The columns of measured values.
        columns: The columns that are not inputs; each must be the same in all rows of a sample.
    """
    table.require([settings.series, *([] if settings.order is None else [settings.order]), *channels])
    named = table.texts(settings.series, "series")
    names, first, of = np.unique(named, return_index=True, return_inverse=True)
    by_place = np.argsort(first)  # samples stand in the order of their first rows
    rank = np.empty_like(by_place)
    rank[by_place] = np.arange(len(names))
    order = np.arange(len(table)) if settings.order is None else _numbers(table, settings.order)
    rows = np.lexsort((order, rank[of]))
    starts = np.cumsum(np.bincount(rank[of]))[:-1]
    values = np.stack([_numbers(table, name) for name in channels], 1)[rows]
    made: dict[str, np.ndarray] = {X: column_of(np.split(values, starts))}
    heads = first[by_place]
    for name in dict.fromkeys(columns.names):
        if name not in table.columns:
            continue
        texts = as_texts(table.columns[name])
        strange = np.flatnonzero(texts != texts[heads][rank[of]])
        if len(strange):
            row = int(strange[0])
            raise FedloomError(
                f"{table.where}: column '{name}', row {row + 1} is '{str(texts[row])[:40]}', but another row of "
                f"'{str(named[row])[:40]}' has another value: give one per {settings.series}."
            )
        made[name] = table.columns[name][heads]
    return Table(made, table.where, table.names, table.decimal_commas)


def _numbers(table: Table, name: str) -> np.ndarray:
    """A column of numbers, none of them missing."""
    texts = table.values(name)
    found = np.empty(len(texts), dtype=np.float64)
    for row, text in enumerate(texts):
        try:
            found[row] = float(text)
        except ValueError:
            said = f"'{str(text)[:40]}' is not a number" if text else "the cell is empty"
            raise FedloomError(
                f"{table.where}: column '{name}', row {row + 1}: {said}: correct it, or leave the row out."
            ) from None
    return found
