"""Folders of other versions: their results are read, with today's keys, and nothing in them is continued.

A version may draw, split or round differently from the one before it, so a run that two of them played would be a run
of neither. Releases of one minor version (0.7.x) continue each other's folders.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fedloom
from fedloom.core.errors import FedloomError
from fedloom.files.formats import SETTINGS
from fedloom.registry.validation import read_toml
from fedloom.runs.folder.manifest import check_config, refuse_strange_files
from fedloom.runs.folder.writer_version import minor, settings_format, writer_version


def read_run_values(folder: Path) -> dict[str, Any]:
    """The values of a run folder's config.toml, with the current keys."""
    path = folder / "config.toml"
    if not path.is_file():
        inside = next((str(found.parent) for found in sorted(folder.glob("*/config.toml"))), None)
        instead = f" Name one of the runs in it, such as {inside}." if inside is not None else ""
        raise FedloomError(f"{folder} is not the folder of a run: it has no config.toml.{instead}")
    refuse_strange_files(folder)
    check_config(folder)
    return with_new_keys(read_toml(path), path)


def with_new_keys(values: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The values of an older version's config or plan, with the current keys."""
    return SETTINGS.upgrade(values, settings_format(values), path)


def is_of_this_version(values: Mapping[str, Any]) -> bool:
    """Whether this minor version wrote a config or a plan."""
    return minor(writer_version(values)) == minor(fedloom.__version__)


def refuse_other_version(folder: Path, values: Mapping[str, Any]) -> None:
    """Refuse to continue what another minor version started.

    Args:
        folder: The folder of a run or a plan.
        values: The content of its settings' file.
    """
    if not is_of_this_version(values):
        raise FedloomError(
            f"{folder} was written by Fedloom {writer_version(values)} and this is {fedloom.__version__}: its results "
            "can be read (report, predict), but it cannot be resumed: start it again."
        )
