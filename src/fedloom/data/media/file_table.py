"""Folders and tables of files as a table with a row per file: where it is, what errors call it, and what it is.

A folder is ``client/class/FILE`` or ``class/FILE``, in itself or in its sub-folders ``train`` and ``test``. A table has
a column of paths, relative to the table or absolute. Hidden files are left out, and links to folders are refused: a
folder may lead to itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.data.readers.csv import csv_rows
from fedloom.data.tables.table_columns import TableColumns
from fedloom.data.tables.table_targets import target_columns
from fedloom.data.tables.tables import TEXT_ENDINGS, Table, as_texts, is_table, name_list, read_table, table_header

PATH, NAME = "<path>", "<name>"
"""The columns of a table of files: where each is, and what errors call it. No column of a user's table is called so."""
PARTS = ("train", "test")
SYSTEM_FILES = ("thumbs.db", "desktop.ini")
"""What operating systems leave in folders, besides hidden files."""


def list_files(folder: Path) -> Iterator[Path]:
    """The files below a folder, in the order of their names, without hidden ones and those of operating systems."""

    def refuse(error: OSError) -> None:
        raise FedloomError(f"{error.filename} cannot be read ({error.strerror}): change its permissions, or remove it.")

    for place, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in folders:
            if os.path.islink(os.path.join(place, name)):
                where = os.path.join(place, name)
                raise FedloomError(f"{where} is a link to a folder, which is not followed: copy the folder.")
        for name in sorted(files):
            if is_users_file(name):
                yield Path(place, name)


def is_users_file(name: str) -> bool:
    """Whether a file of this name is the user's own, and neither hidden nor left by an operating system."""
    return not (name.startswith(".") or name.lower() in SYSTEM_FILES)


def read_file_table(path: Path, columns: TableColumns, what: str, endings: Sequence[str]) -> Table:
    """A folder with a sub-folder per class, or a table of paths, as a table of files.

    Args:
        path: The folder or the table.
        columns: The names of the target's and the client's columns; of a folder, its sub-folders' names go there.
        what: What a file is, for errors.
        endings: The endings of such files.
    """
    if path.is_dir():
        return folder_table(path, columns, what, endings)[0]
    if is_table(path):
        return path_table(path, columns, what, endings)[0]
    raise FedloomError(
        f"{path.name} is not a folder of {what}s with a sub-folder per class, and not a table of their paths: give one."
    )


# -- folders


def folder_table(
    folder: Path, columns: TableColumns, what: str, endings: Sequence[str], client_from: str | None = None
) -> tuple[Table, np.ndarray | None, list[str]]:
    """The files of a folder: ``client/class/FILE`` or ``class/FILE``.

    Args:
        folder: The folder, or the one above ``train`` and ``test``.
        columns: What the columns of classes and clients are called.
        what: What a file is, for errors.
        endings: The endings of such files; any other file in a sub-folder is taken as well, and read in vain.
        client_from: A regular expression whose group finds the client in a file's path within the folder.

    Returns:
        The table, whether each file is for testing (None: not said), and notes.
    """
    roots = _parts(folder, what)
    found: list[tuple[str, Path, tuple[str, ...]]] = []
    beside: list[str] = []
    for part, root in roots:
        for path in list_files(root):
            inside = path.relative_to(root).parts
            if len(inside) > 1:
                found.append((part, path, inside))
            elif path.suffix.lower() in endings:
                raise FedloomError(
                    f"{_below(folder, path)} lies in no sub-folder: put the {what}s of each class into a sub-folder "
                    "with its name, or name their classes in a table of paths."
                )
            else:
                beside.append(path.name)
    _refuse_empty_folders(folder, [root for _, root in roots], what)
    if len(found) < 2:
        raise FedloomError(f"{folder.name} has {len(found)} {what}s: give at least two, in a sub-folder per class.")
    _refuse_mixed_depths(folder, found, what, client_from)
    texts: dict[str, list[str]] = {
        PATH: [str(path) for _, path, _ in found],
        NAME: [_below(folder, path) for _, path, _ in found],
        columns.targets[0]: [inside[-2] for *_, inside in found],
    }
    if client_from is not None:
        rule = _rule(client_from)
        texts[columns.client] = [_client("/".join(inside), rule, folder.name) for *_, inside in found]
    elif len(found[0][2]) == 3:
        texts[columns.client] = [inside[0] for *_, inside in found]
    test = np.array([part == "test" for part, *_ in found])
    notes = [f"left out, since they lie beside the sub-folders: {name_list(beside)}"] if beside else []
    return _table(texts, folder.name), test if test.any() else None, notes


def _parts(folder: Path, what: str) -> list[tuple[str, Path]]:
    """The folders ``train`` and ``test``, where there is the first; else the folder itself."""
    if not (folder / PARTS[0]).is_dir():
        return [("", folder)]
    others = [path.name for path in sorted(folder.iterdir()) if path.is_dir() and path.name not in PARTS]
    others = [name for name in others if not name.startswith(".")]
    if others:
        raise FedloomError(
            f"{folder.name} has the sub-folder '{others[0]}' beside 'train': move its {what}s into train or test (a "
            "validation part is made with task.valid_share)."
        )
    return [(part, folder / part) for part in PARTS if (folder / part).is_dir()]


def has_client_folders(folder: Path, endings: Sequence[str]) -> bool:
    """Whether files lie in ``client/class/FILE``: there are folders between the folder and those of the classes.

    Args:
        folder: The folder, or the one above ``train`` and ``test``.
        endings: The endings of such files.
    """
    root = folder / PARTS[0] if (folder / PARTS[0]).is_dir() else folder
    first = next((path for path in list_files(root) if path.name.lower().endswith(tuple(endings))), None)
    return first is not None and len(first.relative_to(root).parts) > 2


def _refuse_empty_folders(folder: Path, roots: Sequence[Path], what: str) -> None:
    """Raise an error for a class without a file: it is a mistake, or a class that nobody can learn."""
    for root in roots:
        for place, folders, files in os.walk(root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            seen = any(map(is_users_file, files))
            if Path(place) == root and not folders:
                raise FedloomError(
                    f"{_below(folder, root)} has no sub-folders: put the {what}s of each class into a sub-folder."
                )
            if not folders and not seen:
                raise FedloomError(f"{_below(folder, Path(place))} has no {what}s: add some, or remove the folder.")


def _refuse_mixed_depths(
    folder: Path, found: Sequence[tuple[str, Path, tuple[str, ...]]], what: str, client_from: str | None
) -> None:
    first, depth = found[0][1], len(found[0][2])
    for _, path, inside in found:
        if len(inside) != depth:
            raise FedloomError(
                f"{_below(folder, first)} and {_below(folder, path)} lie at different depths: put all {what}s into "
                f"class/FILE, or all into client/class/FILE."
            )
    if depth > 3 and client_from is None:
        raise FedloomError(
            f"{_below(folder, first)} lies {depth - 1} folders deep: put {what}s into client/class/FILE or "
            "class/FILE, or say with --client-from (client_from=...) where a path names the client."
        )


def _rule(pattern: str) -> re.Pattern[str]:
    """A user's regular expression with one group."""
    try:
        rule = re.compile(pattern)
    except re.error as error:
        raise FedloomError(f"client_from='{pattern}' is not a regular expression: {error}.") from None
    if rule.groups != 1:
        raise FedloomError(
            f"client_from='{pattern}' has {rule.groups} groups: put parentheses around what names the client, once, as "
            "in '([^/]+)_[0-9]+'."
        )
    return rule


def _client(inside: str, rule: re.Pattern[str], where: str) -> str:
    match = rule.search(inside)
    if match is None or not match.group(1):
        raise FedloomError(
            f"{where}: client_from='{rule.pattern}' finds no client in the path '{inside}': correct it, or rename the "
            "file."
        )
    return match.group(1)


# -- tables of paths


def path_column(
    path: Path, columns: TableColumns, endings: Collection[str], file_column: str | None = None
) -> tuple[str, str] | None:
    """The column of a text table whose first cell names a file, and that cell; None if there is none.

    A column of names of files that are not there is one like any other, unless there is no other for the inputs.

    Args:
        path: The table.
        columns: The columns that are not inputs.
        endings: The endings of such files.
        file_column: The column of paths, where the user names it.
    """
    if not path.name.lower().endswith(TEXT_ENDINGS):
        if file_column is None:
            return None
        raise FedloomError(f"{path.name}: a table of paths must be a .csv or .tsv file: save it as one.")
    rows = csv_rows(path)
    header = list(next(rows)[0])
    cells = dict(zip(header, next(rows, [[""] * len(header)])[0], strict=True))
    if file_column is not None:
        if file_column not in cells:
            raise FedloomError(f"{path.name} has no column '{file_column}': its columns are {name_list(header)}.")
        if file_column in columns.names:
            raise FedloomError(
                f"{path.name}: the column '{file_column}' cannot have the paths and be the target, the client or the "
                "group too: name another one."
            )
        if not cells[file_column].lower().endswith(tuple(endings)):
            raise FedloomError(
                f"{path.name}: column '{file_column}', row 1: '{cells[file_column][:80]}' is not the path of an image "
                f"or a sound: the endings are {', '.join(endings)}."
            )
        return file_column, cells[file_column]
    inputs = [name for name in header if name not in {*columns.names, *columns.ignore}]
    for name in inputs:
        if not cells[name].lower().endswith(tuple(endings)):
            continue
        if len(inputs) == 1 or os.path.isfile(path.parent / os.path.expanduser(cells[name])):
            return name, cells[name]
    return None


def path_table(
    path: Path,
    columns: TableColumns,
    what: str,
    endings: Sequence[str],
    file_column: str | None = None,
    client_from: str | None = None,
) -> tuple[Table, list[str]]:
    """The rows of a table whose files are named in a column, and notes.

    Args:
        path: The table.
        columns: The columns that are not inputs; others than these and the paths are left out.
        what: What a file is, for errors.
        endings: The endings of such files.
        file_column: The column of paths; found where it is not named.
        client_from: A regular expression whose group finds the client in a path.
    """
    found = path_column(path, columns, endings, file_column)
    if found is None:
        raise FedloomError(
            f"{path.name} has no column whose first cell is the path of {'an' if what[0] in 'aeiou' else 'a'} {what}: "
            "name it with --file-column (file_column=...)."
        )
    named = found[0]
    table = read_table(path, [*columns.names, named], columns.ignore)
    cells = as_texts(table.columns[named])
    missing = [row for row, cell in enumerate(cells, start=1) if not cell]
    if missing:
        raise FedloomError(f"{path.name}: column '{named}', row {missing[0]}: the cell is empty: name the file.")
    others = [name for name in table.columns if name not in {named, *columns.names}]
    kept = {name: column for name, column in table.columns.items() if name not in {named, *others}}
    kept[PATH] = np.array([str(path.parent / Path(cell).expanduser()) for cell in cells], dtype=object)
    kept[NAME] = np.array([f"{path.name}, row {row}: {cell}" for row, cell in enumerate(cells, start=1)], dtype=object)
    if client_from is not None:
        rule = _rule(client_from)
        kept[columns.client] = np.array([_client(cell, rule, path.name) for cell in cells], dtype=object)
    notes = [f"column '{named}' has the paths of the {what}s"]
    notes += [f"left out, since the inputs are {what}s: {name_list(others)}"] if others else []
    return Table(kept, path.name, table.names, table.decimal_commas), notes


def require_columns(path: Path, columns: TableColumns, usual_client: str) -> None:
    """Raise an error if a table of files lacks a column that the user names.

    Args:
        path: The table.
        columns: The columns that are not inputs.
        usual_client: The client column that may be missing.
    """
    header = Table(dict.fromkeys(table_header(path), np.zeros(0)), path.name)
    target_columns(header, columns.target)
    header.require([] if columns.client == usual_client else [columns.client])
    header.require([] if columns.group is None else [columns.group])


def _below(folder: Path, path: Path) -> str:
    return Path(folder.name, path.relative_to(folder)).as_posix()


def _table(texts: dict[str, list[str]], where: str) -> Table:
    return Table({name: np.array(cells, dtype=object) for name, cells in texts.items()}, where)
