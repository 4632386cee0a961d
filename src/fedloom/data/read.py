"""``fl.read``: a user's own file, folder, frame or dataset as a federation.

Every reader ends in ``from_arrays`` or, for a table, in ``federation_of_table``. An error names the column and the row;
rows are counted from 1, the header not included.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np

from fedloom.core.errors import FedloomError, no_path, unknown
from fedloom.data.federation import Federation
from fedloom.data.folder import read_arrays
from fedloom.data.from_arrays import RESERVED, from_arrays
from fedloom.data.media.file_table import has_client_folders
from fedloom.data.media.media_settings import Images, Sounds
from fedloom.data.media.medium import IMAGES, SOUNDS, medium_of
from fedloom.data.media.read_media import FileReading, federation_of_files
from fedloom.data.readers.leaf import read_leaf
from fedloom.data.readers.npz_per_client import read_npz_per_client
from fedloom.data.readers.objects_per_client import join_objects, pieces_of
from fedloom.data.sequences.read_series import federation_of_series
from fedloom.data.sequences.sequence_plan import LENGTHS, split_sequences
from fedloom.data.sequences.sequence_settings import Sequences
from fedloom.data.stack_samples import column_of
from fedloom.data.tables.read_table import USUAL_CLIENT, federation_of_table
from fedloom.data.tables.table_columns import EmptyLabels, TableColumns
from fedloom.data.tables.tables import FILE_NAME, Table, is_table, read_table, read_tables_per_client, table_header
from fedloom.data.tables.text_column import Text, text_settings
from fedloom.registry.validation import validate

Arguments = ParamSpec("Arguments")
DIVISION = ("clients", "communal_share", "global_share", "partition", "seed", "test_share", "title", "valid_share")
"""The options of ``from_arrays`` that every reader has."""
log = logging.getLogger("fedloom.data")
"""The command line shows what is logged here, once."""


def read_npz(path: Path, ignore: Sequence[str] = (), group: str | None = None) -> dict[str, Any]:
    """The arrays x, y, client (if it is there) and ``group`` (if it is named) of an NPZ file.

    x is a dict where the file has several input columns.
    """
    named = () if group is None else (group,)
    arrays: dict[str, Any] = read_arrays(path, named, (*RESERVED, LENGTHS))
    if "x" in arrays:
        if LENGTHS in arrays and LENGTHS not in ignore:
            arrays["x"] = column_of(split_sequences(arrays["x"], arrays[LENGTHS], path.name))
        return arrays if "y" in arrays else read_arrays(path, ("x", "y"))
    others = {*RESERVED, *ignore, *named}
    several = {name: array for name, array in read_arrays(path, ("y",)).items() if name not in others}
    return read_arrays(path, ("x", "y")) if len(several) < 2 else arrays | {"x": several}


def names_clients(path: str | Path, client: str = USUAL_CLIENT) -> str:
    """How a user's file or folder says whose its samples are, as a phrase; empty if it does not.

    Args:
        client: The column of a table that names the client.
    """
    place = Path(path).expanduser()
    medium = medium_of(place, TableColumns(client=client)) if place.is_dir() else None
    if medium is not None:
        return "has a folder per client" if has_client_folders(place, medium.endings) else ""
    if place.is_dir():
        first = next((file for file in sorted(place.rglob("*")) if is_table(file)), None)
        named = first is not None and client in table_header(first)
        return f"has the client column '{client}'" if named else "has a file per client"
    if place.suffix.lower() == ".json":
        return "has a part per client"
    if place.is_file() and place.suffix.lower() == ".npz":
        return "has the array 'client'" if "client" in read_arrays(place, (), RESERVED) else ""
    if place.is_file() and is_table(place):
        columns = table_header(place)
        return f"has the client column '{client}'" if client in columns else ""
    return ""


def refuse_unclear_alpha(path: str | Path, client: str, alpha: float) -> None:
    """Ask what is meant if data with clients of their own are to be divided by ``alpha``.

    Args:
        client: The column of a table that names the client.
        alpha: The concentration that the user gave.
    """
    how = names_clients(path, client)
    if how:
        raise FedloomError(
            f"alpha={alpha:g} divides samples among made-up clients, but {Path(path).name} {how}: leave alpha out to "
            f"use its clients, or say partition dirichlet({alpha:g}) to divide the samples anew."
        )


def _with_arguments(reader: Callable[Arguments, Federation]) -> Callable[Arguments, Federation]:
    """The reader, whose federations know the arguments that read them (``Federation.read_with``)."""
    declared = inspect.signature(reader)

    @functools.wraps(reader)
    def wrapper(*given: Arguments.args, **named: Arguments.kwargs) -> Federation:
        federation = reader(*given, **named)
        log.info("%s", "\n".join([f"{federation.title}:", *(f"  {note}" for note in federation.notes)]))
        arguments = declared.bind(*given, **named).arguments
        options = arguments.pop("options", {})
        if isinstance(arguments["path"], str | Path):
            object.__setattr__(federation, "read_with", {**arguments, **options})  # the dataclass is frozen
        return federation

    return wrapper


@_with_arguments
def read(
    path: str | Path | Any,
    *,
    target: str | Sequence[str] = "label",
    client: str = "client",
    group: str | None = None,
    ignore: Sequence[str] = (),
    kind: str | None = None,
    classes: int | None = None,
    text: str | Text | Mapping[str, Any] | None = None,
    dates: Mapping[str, str] | None = None,
    empty_labels: EmptyLabels = "missing",
    sequences: Sequences | Mapping[str, Any] | None = None,
    client_from: str | None = None,
    file_column: str | None = None,
    skip_unreadable: bool = False,
    images: Images | Mapping[str, Any] | None = None,
    sounds: Sounds | Mapping[str, Any] | None = None,
    **options: Any,
) -> Federation:
    """A federation from a user's file, folder, frame or dataset. A file's format follows from its ending and content.

    In a table, a column of numbers is a feature, texts become a feature per level, dates become days, month, weekday
    and hour, and missing cells are filled in: ``federation.notes`` says what is done to each column. An ``.npz`` needs
    the arrays x and y and may have client; without x, its other arrays are input columns by name. ``.json`` is LEAF's
    format. A folder holds one table or one NPZ per client, or LEAF's JSON files; its sub-folders train and test, where
    it has them, are the clients' parts. Tables that have the column of the client are pieces of one table.

    A folder of images or sounds has sub-folders ``client/class`` or ``class``; a table may name such files in a column.
    All of them become the same size or length, and ``federation.notes`` says which.

    Args:
        path: A .csv, .tsv (also .gz), .parquet, .arrow, .npz or .json file, a folder, a pandas frame, a torch dataset,
            a DataLoader, or a dataset of Hugging Face's ``datasets``; or a list or dictionary of these, one per client,
            of which each may be a pair (train, test).
        target: The column of the target in a table; several columns of 0 and 1 are labels.
        client: The column of a table that names the client of a row; the default one may be missing.
        group: The column of a table, or the array of an NPZ file, that says which samples belong together: a patient, a
            video. They are never in two of the train, validation and test parts.
        ignore: Columns of a table, or input columns of an NPZ file, that are left out.
        kind: What the target is, where its values do not show it: classes, number, labels or tokens.
        classes: The number of classes, where the labels do not show it.
        text: The column of a table with sentences, which is then the only input; or a table of settings,
            ``{"column": "review", "words": 5000, "length": 100}``.
        dates: How the dates of columns are written, where it is not found by itself: ``{"admitted": "%d/%m/%Y"}``.
        empty_labels: What an empty cell, or list, of a target of labels says: ``missing``, and a table's row is left
            out, or ``none``: the sample has none of the labels.
        sequences: What a table with a row per time step is: ``{"series": "visit", "order": "minute"}``. A sample is
            then a series of rows, and its other columns are channels.
        client_from: A regular expression whose one group finds the client in the path of an image or sound.
        file_column: The column of a table with the paths of images or sounds; by default the first one whose first
            cell is such a path.
        skip_unreadable: Whether images and sounds that cannot be read are left out, instead of an error.
        images: What images become: ``{"size": 48}``, ``{"size": [48, 64], "channels": 1}``.
        sounds: What sounds become: ``{"rate": 8000, "seconds": 1.5, "mels": 40}``.
        **options: Options of ``from_arrays``: partition, clients, seed and the shares.
    """
    for name in options:
        if name not in DIVISION:
            raise unknown("argument of fl.read", name, {*inspect.signature(read).parameters, *DIVISION} - {"options"})
    about_files = {
        "client_from": client_from,
        "file_column": file_column,
        "skip_unreadable": skip_unreadable or None,
        "images": images,
        "sounds": sounds,
    }
    if not isinstance(path, str | Path):
        _refuse_settings({**about_files, "sequences": sequences}, "the data are an object in Python")
        options |= {"kind": kind, "classes": classes, "empty_labels": empty_labels}
        return _read_object(path, target, client, group, ignore, text, dates, **options)
    sentences = text_settings(text)
    path = Path(path).expanduser()
    options.setdefault("title", path.name)
    if not path.exists():
        raise no_path(path, "a .csv, .npz, .parquet or .json file, or a folder of them or of images or sounds")
    one = target if isinstance(target, str) else ",".join(target)
    columns = TableColumns(one, client, ignore, group, empty_labels=empty_labels)
    medium = medium_of(path, columns, file_column)
    if medium is not None:
        other = SOUNDS if medium is IMAGES else IMAGES
        _refuse_settings({other.setting: about_files[other.setting]}, f"{path.name} has {medium.what}s")
        reading = FileReading(client_from, file_column, skip_unreadable, about_files[medium.setting])
        return federation_of_files(path, medium, columns, reading, kind, classes, **options)
    _refuse_settings(about_files, f"{path.name} has no files of images or sounds")
    has_tables = (path.is_dir() and any(is_table(file) for file in path.rglob("*"))) or is_table(path)
    if group is not None and not has_tables and path.suffix.lower() != ".npz":
        raise FedloomError(f"group='{group}': {path.name} has no columns; give a table or an .npz file to use groups.")
    if sentences is not None and not has_tables:
        raise FedloomError(f"text='{sentences.column}': {path.name} has no columns; give a table to read a text.")
    if has_tables and not (path.is_dir() and any(path.rglob("*.npz"))):
        column = None if sentences is None else sentences.column
        series: Sequences | None = None if sequences is None else validate(Sequences, sequences, "sequences")
        further = (column, None if series is None else series.series)
        texts = [name for name in (target, *str(target).split(","), client, group, *further) if isinstance(name, str)]
        test: np.ndarray | None = None
        if path.is_dir():
            table, test = read_tables_per_client(path, texts, ignore, client)
        else:
            table = read_table(path, texts, ignore)
        how: dict[str, Any] = {"target": target, "client": client, "group": group, "kind": kind, "classes": classes}
        if series is not None:
            return federation_of_series(table, series, columns, kind, classes, test, **options)
        how["empty_labels"] = empty_labels
        return federation_of_table(table, own_test=test, text=sentences, dates=dates, **how, **options)
    _refuse_settings({"sequences": sequences, "dates": dates}, f"{path.name} has no columns")
    options |= {"kind": kind, "classes": classes, "empty_labels": empty_labels}
    if path.is_dir() or path.suffix.lower() == ".json":
        reader = read_npz_per_client if path.is_dir() and any(path.rglob("*.npz")) else read_leaf
        x, y, holder, test = reader(path)
        return from_arrays(x, y, holder, own_test=test, **options)
    if path.suffix.lower() != ".npz":
        raise FedloomError(
            f"{path.name}: '{path.suffix.lower()}' cannot be read: use .csv, .tsv, .npz, .parquet or .json."
        )
    arrays = read_npz(path, ignore, group)
    together = None if group is None else arrays[group]
    return from_arrays(arrays["x"], arrays["y"], arrays.get("client"), group=together, **options)


def _refuse_settings(given: Mapping[str, Any], why: str) -> None:
    """Raise an error if a setting is given that these data have no use for."""
    for name, value in given.items():
        if value is not None:
            raise FedloomError(f"{name}={value}: {why}: leave it out.")


def _read_object(
    data: Any,
    target: str | Sequence[str],
    client: str,
    group: str | None,
    ignore: Sequence[str],
    text: str | Text | Mapping[str, Any] | None,
    dates: Mapping[str, str] | None,
    **options: Any,
) -> Federation:
    """A federation of a frame or a dataset, or of several of them."""
    pieces = pieces_of(data)
    if not pieces:
        raise FedloomError(
            f"{type(data).__name__} cannot be read: give a path, a pandas frame, a torch Dataset with a length, a "
            "DataLoader, a Hugging Face dataset, or a list or dictionary of these with one per client."
        )
    one = target if isinstance(target, str) else ",".join(target)
    named = client if pieces[0].client is None else FILE_NAME
    joined = join_objects(pieces, TableColumns(one, named, ignore, group))
    if isinstance(joined.samples, Table):
        joined.samples.require(list(ignore))
        table = joined.samples.without(ignore)
        how: dict[str, Any] = {"target": target, "client": named, "group": group, "own_test": joined.own_test}
        made = federation_of_table(table, text=text_settings(text), dates=dates, **how, **options)
    elif text is not None or dates is not None:
        named = "dates" if text is None else "text"
        raise FedloomError(f"{named}= names a column of a table, but these samples are arrays: leave it out.")
    else:
        made = from_arrays(**joined.samples, own_test=joined.own_test, **options)
    return replace(made, notes=(*made.notes, *joined.notes))
