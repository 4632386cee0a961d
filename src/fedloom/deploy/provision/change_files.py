"""Change several files of a participant's folder at once: all of them or none, also if the process is killed.

The new files are written to a folder beside, ``.change.part``, which is renamed to ``.change`` when it is complete.
From then on the change happens: each file is renamed to its place. Whoever finds a ``.change`` moves what is left of it
(``finish_change``), so servers, sites and the commands that change folders begin with that.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.deploy.participant_folder import make_private
from fedloom.files.atomic_write import write_atomic, write_private

CHANGE, DRAFT = ".change", ".change.part"
PRIVATE = ".key"
"""The ending of files that only their owner may read."""


def change_files(folder: Path, files: Mapping[str, bytes], check: Callable[[Path], None] = lambda _draft: None) -> None:
    """Write files into a folder, all or none of them.

    Args:
        files: The files' contents, by their names in the folder.
        check: Gets the folder of the new files before anything has changed, and raises an error if they are not right.
    """
    finish_change(folder)
    draft = folder / DRAFT
    shutil.rmtree(draft, ignore_errors=True)  # left by a kill
    try:
        for name, content in files.items():
            make_private((draft / name).parent)
            (write_private if name.endswith(PRIVATE) else write_atomic)(draft / name, content)
        check(draft)
        os.replace(draft, folder / CHANGE)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    finish_change(folder)


def finish_change(folder: Path) -> None:
    """Finish a change that was begun and interrupted, if there is one."""
    change = folder / CHANGE
    if change.is_symlink():  # not ours: a change is a folder that change_files wrote
        raise FedloomError(f"{change} is a link, and a change of this folder is never one: remove it.")
    for path in sorted(path for path in change.rglob("*") if path.is_file() and not path.is_symlink()):
        target = folder / path.relative_to(change)
        if not target.parent.exists():
            target.parent.mkdir(mode=0o700, parents=True)
        os.replace(path, target)
    shutil.rmtree(change, ignore_errors=True)
