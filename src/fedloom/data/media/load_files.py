"""Files as inputs: a look at every header, one plan for all, then each file in its turn.

What images and sounds become follows from the headers of all files, before any file is decoded. A file that cannot be
read ends the reading with its name, or is left out where the user says so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.data.media.file_plan import FilePlan, Unreadable, left_out, read_each
from fedloom.data.media.medium import Medium
from fedloom.data.tables.tables import Table
from fedloom.registry.validation import validate


class LoadedFiles(NamedTuple):
    """The inputs of the files that could be read, the plan that made them, which files these are, and a note on the
    others (empty without any)."""

    x: np.ndarray
    plan: FilePlan
    kept: np.ndarray
    note: str


def load_files(table: Table, medium: Medium, settings: Any, skip_unreadable: bool) -> LoadedFiles:
    """The inputs of a table's files.

    Args:
        table: The files.
        medium: What they are.
        settings: What the user says of them; None for nothing.
        skip_unreadable: Whether files that cannot be read are left out, instead of an error.
    """
    given = isinstance(settings, medium.settings)
    chosen = settings if given else validate(medium.settings, settings or {}, medium.setting)
    bad: dict[str, str] | None = {} if skip_unreadable else None
    try:
        headers = dict(read_each(table, medium.header, bad))
        _refuse_too_few(len(headers), table, medium, bad)
        rows = np.array(list(headers), dtype=np.int64)
        plan = medium.fit(list(headers.values()), chosen)
        x, good = plan.empty(len(rows), table.where), []
        for place, made in read_each(table.rows(rows), plan.read, bad):
            x[place] = made
            good.append(place)
    except Unreadable as error:
        text = str(error).rstrip(".")
        raise FedloomError(f"{text} (--skip-unreadable, skip_unreadable=True, leaves such files out).") from error
    _refuse_too_few(len(good), table, medium, bad)
    return LoadedFiles(x if len(good) == len(x) else x[good], plan, rows[good], left_out(bad or {}, medium.what))


def _refuse_too_few(count: int, table: Table, medium: Medium, bad: dict[str, str] | None) -> None:
    if count < 2:
        why = f"; {next(iter(bad.values()))}" if bad else ": give at least two."
        raise FedloomError(f"{table.where} has {count} readable {medium.what}s{why}")
