"""Several Python objects as one federation: a dataset per client, a pair of train and test parts, splits by name.

``list[Dataset]`` and ``dict[str, Dataset]`` have a client each, as simulations with Flower often do; a client's entry
may be a pair (train, test). A dictionary of Hugging Face's splits has parts and no clients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from fedloom.core.errors import FedloomError
from fedloom.data.readers.objects import Arrays, is_huggingface, is_readable, read_object
from fedloom.data.stack_samples import are_sequences, column_of
from fedloom.data.tables.table_columns import TableColumns
from fedloom.data.tables.tables import FILE_NAME, Table, join_tables

TRAIN, TEST = ("train", "training", "validation", "valid", "val"), ("test", "testing")
"""Names of parts; validation samples are joined with the training samples, and ``valid_share`` takes some again."""

LOADER = (
    "of a DataLoader its dataset is read, in its own order: shuffling, batch size and collate_fn change nothing, since "
    "clients draw batches of the run's batch size"
)
VALIDATION = "the validation part is joined with the training part: valid_share says how many samples validate"


@dataclass(frozen=True)
class Piece:
    """The samples of one part of one client, or of nobody in particular.

    Args:
        data: The object that holds them.
        client: The client's name; None where the samples name their clients, or nobody does.
        test: Whether they are for testing.
        where: What an error calls them.
    """

    data: Any
    client: str | None = None
    test: bool = False
    where: str = ""


@dataclass(frozen=True)
class JoinedObjects:
    """The samples of all pieces, as arrays or as a table, and what is known about them.

    Args:
        samples: The samples; clients that the pieces name are their client.
        own_test: Whether each sample is for testing; None if nothing says so.
        named: Whether the pieces name their clients.
        notes: What was made of them, in sentences.
    """

    samples: Arrays | Table
    own_test: np.ndarray | None
    named: bool
    notes: tuple[str, ...]


def pieces_of(data: Any) -> list[Piece]:
    """The parts that an object consists of; none if it holds no samples.

    Args:
        data: A dataset or a pair of arrays, one of them per client in a list or a dictionary, or parts by name.
    """
    if is_readable(data):
        return [Piece(data)]
    if is_huggingface(data) and hasattr(data, "keys"):
        return _parts(data, None, "the dataset")
    if isinstance(data, Mapping):
        entries = [(str(name), entry) for name, entry in data.items()]
    elif isinstance(data, list):
        entries = [(str(number), entry) for number, entry in enumerate(data)]
    else:
        return []
    return [piece for name, entry in entries for piece in _parts(entry, name, f"client {name}")] if entries else []


def _parts(entry: Any, client: str | None, where: str) -> list[Piece]:
    """The parts of one client: all of its samples, a pair (train, test), or parts by name."""
    if is_readable(entry):
        return [Piece(entry, client, where=where)]
    if isinstance(entry, tuple | list) and len(entry) == 2 and all(map(is_readable, entry)):
        return [Piece(entry[0], client, where=f"{where}, train"), Piece(entry[1], client, True, f"{where}, test")]
    if isinstance(entry, Mapping) and entry and all(map(is_readable, entry.values())):
        strange = [name for name in entry if name not in TRAIN + TEST]
        if strange or not any(name in TRAIN for name in entry):
            listed = ", ".join(map(str, entry))
            raise FedloomError(
                f"{where} has the parts {listed}: give train and, where there is one, test; for one part give that "
                "dataset itself."
            )
        return [Piece(part, client, name in TEST, f"{where}, {name}") for name, part in entry.items()]
    raise FedloomError(
        f"{where} is a {type(entry).__name__}, which cannot be read: give a dataset, a DataLoader, a frame, a pair of "
        "arrays (x, y), or two of these as (train, test)."
    )


def join_objects(pieces: Sequence[Piece], columns: TableColumns) -> JoinedObjects:
    """The samples of all pieces together.

    Args:
        pieces: The parts, in their order.
        columns: Which keys or columns of samples are what.
    """
    made = [read_object(piece.data, columns, piece.where) for piece in pieces]
    named = pieces[0].client is not None
    tables = [one for one in made if isinstance(one, Table)]
    if tables and len(tables) < len(made):
        first = next(piece for piece, one in zip(pieces, made, strict=True) if isinstance(one, Table) is not
                     isinstance(made[0], Table))  # fmt: skip
        raise FedloomError(f"{first.where} and {pieces[0].where} are a table and arrays: give all in one form.")
    arrays = [one for one in made if not isinstance(one, Table)]
    sizes = [len(one) if isinstance(one, Table) else len(one["y"]) for one in made]
    clients = np.repeat(np.array([str(piece.client) for piece in pieces], dtype=object), sizes)
    samples = _join_tables(tables, pieces, clients) if tables else _join_arrays(arrays, pieces, clients)
    test = np.repeat([piece.test for piece in pieces], sizes)
    loaders = any(isinstance(piece.data, DataLoader) for piece in pieces)
    notes = [LOADER] if loaders else []
    notes += [VALIDATION] if any(name in piece.where.split(", ") for piece in pieces for name in TRAIN[2:]) else []
    return JoinedObjects(samples, test if test.any() else None, named, tuple(notes))


def _join_tables(tables: Sequence[Table], pieces: Sequence[Piece], clients: np.ndarray) -> Table:
    whole = join_tables(tables, "the tables") if len(tables) > 1 else tables[0]
    if pieces[0].client is None:
        return whole
    if FILE_NAME in whole.columns:
        raise FedloomError(f"each table is a client, but they have a column '{FILE_NAME}' too: ignore or rename it.")
    return Table({**whole.columns, FILE_NAME: clients}, whole.where, whole.names, whole.decimal_commas)


def _join_arrays(made: Sequence[Arrays], pieces: Sequence[Piece], clients: np.ndarray) -> Arrays:
    """Arrays of all pieces one after the other; each piece must have the columns of the first."""
    first = pieces[0].where
    for piece, one in zip(pieces, made, strict=True):
        if piece.client is not None and "client" in one:
            raise FedloomError(
                f"{piece.where}: its samples name a client too: give them as (x, y), or ignore that key."
            )
        if set(one) != set(made[0]) or _inputs(one) != _inputs(made[0]):
            raise FedloomError(f"{piece.where} and {first} differ in their columns: give all clients the same ones.")
    joined: Arrays = {}
    for name in made[0]:
        if isinstance(made[0][name], Mapping):
            keys = made[0][name]
            joined[name] = {key: _join([one[name][key] for one in made], pieces, f", {key}") for key in keys}
        else:
            joined[name] = _join([one[name] for one in made], pieces, f", {name}")
    return joined | ({} if pieces[0].client is None else {"client": clients.astype(str)})


def _inputs(arrays: Arrays) -> set[str]:
    return set(arrays["x"]) if isinstance(arrays["x"], Mapping) else set()


def _join(columns: Sequence[Any], pieces: Sequence[Piece], what: str) -> np.ndarray:
    """One column of all pieces; sequences of unequal length stay a column of arrays."""
    arrays = [np.asarray(column) for column in columns]
    if len({array.shape[1:] for array in arrays}) == 1 and arrays[0].dtype != object:
        return np.concatenate(arrays)
    apart = [np.asarray(sample) for array in arrays for sample in array]
    if arrays[0].dtype == object or are_sequences(apart):
        return column_of(apart)
    usual = arrays[0].shape[1:]
    place = next(place for place, array in enumerate(arrays) if array.shape[1:] != usual)
    raise FedloomError(
        f"{pieces[place].where}{what}: its samples have shape {arrays[place].shape[1:]}, and those of "
        f"{pieces[0].where} {usual}: give all clients samples of one shape."
    )
