"""Run folders of other versions: their results can be read, but only the version that started a run can resume it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fedloom
from fedloom.core.errors import FedloomError
from fedloom.core.validation import read_toml
from fedloom.runs.folder.manifest import check_config, refuse_strange_files

RENAMED_KEYS = {"personal": "prediction"}
"""Keys of a config that were renamed in 0.5."""
UNMARKED = "0.4"
"""Plans did not name their version up to this one."""


def read_run_values(folder: Path) -> dict[str, Any]:
    """The values of a run folder's config.toml, with the current keys."""
    path = folder / "config.toml"
    if not path.is_file():
        raise FedloomError(f"{folder} is not the folder of a run: it has no config.toml.")
    refuse_strange_files(folder)
    check_config(folder)
    return with_new_keys(read_toml(path))


def with_new_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of an older version's config or plan, with the current keys."""
    if writer_version(values) == fedloom.__version__:
        return dict(values)
    renamed = {RENAMED_KEYS.get(key, key): value for key, value in values.items()}
    partition = renamed["task"].get("partition") if isinstance(renamed.get("task"), Mapping) else None
    if isinstance(partition, Mapping) and partition.get("name") == "dirichlet":  # the order of classes up to 0.5
        renamed["task"] = {**renamed["task"], "partition": {"class_order": "label", **partition}}
    inner = renamed.get("config")
    return {**renamed, "config": with_new_keys(inner)} if isinstance(inner, Mapping) else renamed


def writer_version(values: Mapping[str, Any]) -> str:
    """The version that wrote a config or a plan."""
    return str(values.get("made_by", {}).get("fedloom", UNMARKED))


def refuse_other_version(folder: Path, values: Mapping[str, Any], file: str = "config.toml") -> None:
    """Refuse to continue what another version started; ``file`` holds the settings."""
    version = writer_version(values)
    if version != fedloom.__version__:
        raise FedloomError(
            f"{folder} was written by fedloom {version} and this is fedloom {fedloom.__version__}: only fedloom "
            f"{version} can resume it to the same bytes. Install that version, or start anew with the settings in its "
            f"{file}."
        )
