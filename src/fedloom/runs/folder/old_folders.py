"""Folders of other versions: their settings are read with today's keys, and some of their runs go on.

The results of every version are read. A run or a comparison of the previous minor version goes on, to the bytes that
it would have given there, unless it uses something that computes something else since; those, sweeps, advice and
older folders are refused with the step that is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fedloom
from fedloom.core.errors import FedloomError
from fedloom.files.formats import SETTINGS
from fedloom.registry.validation import read_toml
from fedloom.runs.folder.manifest import check_config, refuse_strange_files

DIGITS = 9
"""Longer numbers are no versions."""
UNMARKED = "0.4"
"""Plans did not name their version up to this one."""
PREVIOUS = (0, 5)
"""The minor version before this one."""
CHANGED_STAGES = {"recalibrate": "it mixes the clients whose training part lacks a class"}
"""Prediction stages that compute something else than in the previous minor version, and what."""
CHANGED_PLANS = {
    "sweep.toml": "a sweep chooses on validation data and not on test data",
    "advice.toml": "advice is tested over seeds and not over clients",
}
"""Plans that follow other rules than in the previous minor version."""


def read_run_values(folder: Path) -> dict[str, Any]:
    """The values of a run folder's config.toml, with the current keys."""
    path = folder / "config.toml"
    if not path.is_file():
        raise FedloomError(f"{folder} is not the folder of a run: it has no config.toml.")
    refuse_strange_files(folder)
    check_config(folder)
    return with_new_keys(read_toml(path), path)


def with_new_keys(values: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The values of an older version's config or plan, with the current keys."""
    return SETTINGS.upgrade(values, settings_format(values), path)


def settings_format(values: Mapping[str, Any]) -> object:
    """The number of a config's or plan's format; before numbers were written, it follows from the version."""
    notes = _notes(values)
    if "format" in notes:
        said = str(notes["format"])
        return int(said) if said.isdecimal() and len(said) <= DIGITS else said
    version = _minor(writer_version(values))
    return 1 if version < PREVIOUS else 2 if version == PREVIOUS else SETTINGS.version


def writer_version(values: Mapping[str, Any]) -> str:
    """The version that wrote a config or a plan."""
    return str(_notes(values).get("fedloom", UNMARKED))


def is_of_previous_version(values: Mapping[str, Any]) -> bool:
    """Whether the minor version before this one wrote a config or a plan."""
    return _minor(writer_version(values)) == PREVIOUS


def is_of_this_version(values: Mapping[str, Any]) -> bool:
    """Whether this minor version wrote a config or a plan."""
    return _minor(writer_version(values)) == _minor(fedloom.__version__)


def refuse_other_version(folder: Path, values: Mapping[str, Any], file: str = "config.toml") -> None:
    """Refuse to continue what another version started, unless this one goes on to the same bytes.

    Args:
        folder: The folder of a run or a plan.
        values: What its settings' file says.
        file: The name of that file.
    """
    version = writer_version(values)
    if is_of_this_version(values):
        return
    changed = next(_changes(values, file), "") if is_of_previous_version(values) else None
    if changed != "":
        why = f" ({changed} since)" if changed else ""
        raise FedloomError(f"{other_version(folder, version)}{why}. {step_needed(version, file)}")


def other_version(folder: Path, version: str) -> str:
    """The beginning of a sentence about a folder of another version."""
    return (
        f"{folder} was written by fedloom {version} and this is fedloom {fedloom.__version__}: only fedloom {version} "
        "can resume it to the same bytes"
    )


def step_needed(version: str, file: str = "config.toml") -> str:
    """What to do with a run or a plan that this version cannot continue."""
    return f"Install that version (fedloom=={version}), or start anew with the settings in its {file}."


def _changes(values: Mapping[str, Any], file: str) -> Iterator[str]:
    """What the previous minor version computed otherwise in such a run or plan, as clauses."""
    if file in CHANGED_PLANS:
        yield CHANGED_PLANS[file]
    stages = [stage.get("name") for stage in values.get("prediction", ()) if isinstance(stage, Mapping)]
    stages += [stage for spec in values.get("methods", ()) for stage in str(spec).split("+")[1:]]
    yield from (f"{name}: {what}" for name, what in CHANGED_STAGES.items() if name in stages)


def _minor(version: str) -> tuple[int, ...]:
    """The first two numbers of a version."""
    return tuple(int(number) for number in re.findall(rf"\d{{1,{DIGITS}}}", version)[:2])


def _notes(values: Mapping[str, Any]) -> Mapping[str, Any]:
    notes = values.get("made_by", {})
    return notes if isinstance(notes, Mapping) else {}
