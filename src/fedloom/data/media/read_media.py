"""A folder or a table of files as a federation: its files, their targets and clients, and the plan of its inputs.

Copies belong together: no copy of a training sample is a test sample. Copies are files that become the same inputs,
byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedloom.core.errors import FedloomError
from fedloom.data.federation import Federation
from fedloom.data.leak_groups import number_copies
from fedloom.data.media.file_plan import count_words
from fedloom.data.media.file_table import PATH, folder_table, path_table, require_columns
from fedloom.data.media.load_files import load_files
from fedloom.data.media.medium import Medium
from fedloom.data.tables.client_columns import suggest_client_column
from fedloom.data.tables.read_table import USUAL_CLIENT, divide_rows
from fedloom.data.tables.table_columns import EmptyLabels, TableColumns
from fedloom.data.tables.table_targets import rows_with_targets, table_targets, target_columns
from fedloom.data.tables.tables import Table, read_table
from fedloom.data.targets import Targets, few_names


@dataclass(frozen=True)
class FileReading:
    """What a user says of data whose samples are files.

    Args:
        client_from: A regular expression whose group finds the client in a file's path.
        file_column: The column of paths; found where it is not named.
        skip_unreadable: Whether files that cannot be read are left out, instead of an error.
        settings: What is said of images or sounds.
    """

    client_from: str | None = None
    file_column: str | None = None
    skip_unreadable: bool = False
    settings: Any = None


@dataclass(frozen=True)
class UserFiles:
    """Files that are samples: a row each, whether each is for testing (None: not said), and what is noted of them."""

    table: Table
    test: np.ndarray | None
    notes: Sequence[str]

    def rows(self, keep: np.ndarray, *notes: str) -> UserFiles:
        """Some of the files, with further notes."""
        test = None if self.test is None else self.test[keep]
        return UserFiles(self.table.rows(keep), test, (*self.notes, *filter(None, notes)))


def federation_of_files(
    path: Path,
    medium: Medium,
    columns: TableColumns,
    reading: FileReading,
    kind: str | None = None,
    classes: int | None = None,
    **options: Any,
) -> Federation:
    """The federation of a user's files.

    Args:
        path: A folder, ``client/class/FILE`` or ``class/FILE``, or a table with a column of paths.
        medium: What the files are.
        columns: The columns of the table that are not inputs.
        reading: What the user says of the files.
        kind: The kind of target; None to choose it from the values.
        classes: The number of classes, where the targets do not show it.
        **options: Options of ``from_arrays``: partition, clients, seed, the shares and the title.
    """
    files = _list_files(path, medium, columns, reading)
    names = columns.targets[:1] if path.is_dir() else target_columns(files.table, columns.target)
    files = files.rows(*rows_with_targets(files.table, names, columns.empty_labels))
    loaded = load_files(files.table, medium, reading.settings, reading.skip_unreadable)
    files, x = files.rows(loaded.kept, loaded.note), loaded.x
    copies = number_copies(x)
    if files.test is not None:
        known = files.test & np.isin(copies, copies[~files.test])
        if known.any():
            words = count_words(int(known.sum()), f"test {medium.what}")
            files = files.rows(~known, f"{words} left out: copies of training {medium.what}s")
            x, copies = x[~known], copies[~known]
    doubles = len(copies) - len(np.unique(copies))
    told = f"{count_words(doubles, medium.what)} a copy of another one: copies are never on two sides of a split"
    targets = _targets(path, files.table, names, kind, classes, columns.empty_labels)
    federation = divide_rows(
        files.table,
        targets,
        columns.client,
        columns.group,
        files.test,
        copies if doubles else None,
        suggestion=_suggestion(path, files.table, columns),
        **options,
    )
    model = f"the usual model for {medium.what}s is {medium.usual_model}"
    notes = (targets.note, *files.notes, *([told] if doubles else []), *loaded.plan.lines, model, *federation.notes)
    inputs = {**federation.columns, "x": torch.from_numpy(x)}
    return replace(federation, columns=inputs, plan=loaded.plan, notes=notes)


def _list_files(path: Path, medium: Medium, columns: TableColumns, reading: FileReading) -> UserFiles:
    if not path.is_dir():
        named = reading.client_from is not None  # then the paths name the clients, and no column
        require_columns(path, columns, columns.client if named else USUAL_CLIENT)
        table, notes = path_table(path, columns, medium.what, medium.endings, reading.file_column, reading.client_from)
        return UserFiles(table, None, notes)
    for said, what in ((reading.file_column, "file_column"), (columns.group, "group"), (columns.ignore, "ignore")):
        if said:
            raise FedloomError(
                f"{what}={said}: {path.name} is a folder of {medium.what}s and has no columns: leave it out."
            )
    return UserFiles(*folder_table(path, columns, medium.what, medium.endings, reading.client_from))


def _targets(
    path: Path,
    table: Table,
    names: Sequence[str],
    kind: str | None,
    classes: int | None,
    empty_labels: EmptyLabels,
) -> Targets:
    """The targets of files: what their table says, or the names of the folders that they lie in."""
    if path.is_file() or kind == "number":
        return table_targets(table, names, kind, classes, empty_labels)
    if kind not in (None, "classes") or classes is not None or empty_labels != "missing":
        raise FedloomError(f"{path.name}: its sub-folders are the classes: leave kind, classes and empty_labels out.")
    texts = table.texts(names[0], "class")
    found = sorted(set(texts.tolist()), key=lambda name: (0, name.zfill(12)) if name.isdigit() else (1, name))
    if len(found) < 2:
        raise FedloomError(f"{path.name}: all files are in folders called '{found[0]}': there is nothing to learn.")
    place = {name: number for number, name in enumerate(found)}
    y = np.array([place[text] for text in texts.tolist()], dtype=np.int64)
    note = f"the folders that the files lie in are {len(found)} classes ({few_names(found)})"
    return Targets("classes", y, len(found), found, note)


def _suggestion(path: Path, table: Table, columns: TableColumns) -> str:
    """How the user may name the clients, as a phrase."""
    if path.is_dir():
        return (
            "a folder per client above those of the classes (client/class/FILE), or say with --client-from "
            f"(client_from=...) where a path like {'/'.join(Path(table.columns[PATH][0]).parts[-2:])} names it"
        )
    whole = read_table(path, columns.names) if columns.client not in table.columns else table
    return suggest_client_column(whole, [*columns.targets, columns.group])
