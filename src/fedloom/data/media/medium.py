"""The kinds of files that are samples: what is read of their headers, and how a plan is made of that."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.data.media.file_plan import FilePlan
from fedloom.data.media.file_table import PARTS, is_users_file, path_column
from fedloom.data.media.image_plan import IMAGE_ENDINGS, fit_images, read_header
from fedloom.data.media.media_settings import Images, Sounds
from fedloom.data.media.sound_plan import SOUND_ENDINGS, fit_sounds, read_sound_header
from fedloom.data.tables.table_columns import TableColumns
from fedloom.data.tables.tables import is_table


@dataclass(frozen=True)
class Medium:
    """A kind of file.

    Args:
        what: What a file is, as a noun.
        endings: The endings of such files.
        setting: The setting that has what the user says of them.
        settings: The class of that setting.
        header: What the header of a file says of it.
        fit: The plan for files, from their headers and the setting.
        usual_model: The model for such inputs.
    """

    what: str
    endings: tuple[str, ...]
    setting: str
    settings: type[Any]
    header: Callable[[Path, str], Any]
    fit: Callable[[Sequence[Any], Any], FilePlan]
    usual_model: str


IMAGES = Medium("image", IMAGE_ENDINGS, "images", Images, read_header, fit_images, "lenet-small")
SOUNDS = Medium("sound", SOUND_ENDINGS, "sounds", Sounds, read_sound_header, fit_sounds, "conv1d")
MEDIA = (IMAGES, SOUNDS)
ENDINGS = (*IMAGE_ENDINGS, *SOUND_ENDINGS)


def medium_of(path: Path, columns: TableColumns, file_column: str | None = None) -> Medium | None:
    """What the samples of a user's path are files of; None if they are rows, arrays or something else.

    Args:
        path: A folder, or a table, which may name files.
        columns: The columns of a table that are not inputs.
        file_column: The column of paths, where the user names it.
    """
    if path.is_dir():
        return _medium_of_folder(path, columns)
    if not path.is_file() or not is_table(path):
        return None
    found = path_column(path, columns, ENDINGS, file_column)
    return None if found is None else medium_of_file(found[1])


def medium_of_file(name: str) -> Medium | None:
    """What a file of this name is, by its ending."""
    return next((medium for medium in MEDIA if name.lower().endswith(medium.endings)), None)


def _medium_of_folder(folder: Path, columns: TableColumns) -> Medium | None:
    """What lies in the sub-folders of a folder; in the folder itself only where nothing else does."""
    tops = (folder, *(folder / part for part in PARTS))
    others: list[Path] = []
    above: Medium | None = None
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in filter(is_users_file, sorted(files)):
            medium, path = medium_of_file(name), Path(place, name)
            if path.parent not in tops:
                if medium is not None:
                    _refuse_table_of_files(folder, others, columns)
                    return None if others else medium
            elif medium is not None:
                above = medium
            elif is_table(path) or name.lower().endswith((".npz", ".json")):
                others.append(path)
    return None if others else above


def _refuse_table_of_files(folder: Path, others: Sequence[Path], columns: TableColumns) -> None:
    for path in others:
        if is_table(path) and medium_of(path, columns) is not None:
            raise FedloomError(
                f"{folder.name} has a table of files, {path.name}: give the table itself, --data {folder / path.name}."
            )
