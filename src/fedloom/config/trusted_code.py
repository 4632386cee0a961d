"""Code that a user named herself, and that may run although a folder names it too: a model's class, and other files."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.registry.code_consent import NOTE, code_digest, place_of
from fedloom.registry.spec import split_spec
from fedloom.registry.user_classes import resolve_user_file
from fedloom.tasks.architectures import with_named_models

log = logging.getLogger("fedloom")


@dataclass(frozen=True)
class TrustedCode:
    """What a user named.

    Args:
        model: The run's own model, ``net.py:Net``; it takes the place of the one that the folder names.
        files: Other files or modules whose code may run.
    """

    model: str | None = None
    files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.model is not None and ":" not in self.model:
            raise FedloomError(
                f"model {self.model}: a model of your own is named net.py:Net; others need no name here."
            )
        for file in self.files:
            if code_digest(place_of(file)) is None:
                raise FedloomError(f"there is no file or module {file} to trust: give its path.")

    @property
    def places(self) -> list[str]:
        """The files and modules."""
        model = [] if self.model is None else [place_of(split_spec(self.model)[0])]
        return [*model, *map(place_of, self.files)]

    def put_into(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a folder's config with the user's own files in the places of those that it names.

        A file that is not the one the run was started with is named in the log.
        """
        notes, files = values.get("made_by", {}), {Path(place).name: place for place in self.places}
        if isinstance(values.get("task"), Mapping):
            values = {**values, "task": with_named_models(values["task"])}
        changed: dict[str, Any] = {
            key: value if key == "made_by" else _with_files(value, files, notes) for key, value in values.items()
        }
        if self.model is not None:
            name, options = split_spec(self.model)
            task = changed.get("task", {})
            if ":" not in str(task.get("model", "")):
                raise FedloomError(
                    f"--model {self.model}: the model of this folder is {task.get('model')}: leave it out."
                )
            before = str(values["task"]["model"])
            if Path(place_of(before)).name != Path(place_of(name)).name:  # otherwise that was reported above
                _say_difference(before, place_of(name), notes)
            options = {**task.get("model_options", {}), **options}
            changed["task"] = {**task, "model": resolve_user_file(name), "model_options": options}
        return changed


NO_CODE = TrustedCode()


def _with_files(value: Any, files: Mapping[str, str], notes: Mapping[str, str]) -> Any:
    """Values with other files in the names of code, by the names of the files."""
    if isinstance(value, Mapping):
        return {key: _with_files(one, files, notes) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_files(one, files, notes) for one in value]
    if not isinstance(value, str) or ".py:" not in value:
        return value
    name = split_spec(value)[0]
    where, _, own = name.rpartition(":")
    if not where.endswith(".py") or Path(where).name not in files:
        return value
    place = files[Path(where).name]
    _say_difference(name, place, notes)
    return f"{place}:{own}{value[len(name) :]}"


def _say_difference(name: str, place: str, notes: Mapping[str, str]) -> None:
    before = place_of(name)
    noted = notes.get(f"{NOTE}{before}") or code_digest(before)  # a participant's folder has the file and no note
    if noted is not None and noted != code_digest(place):
        log.warning("%s is not the file that the run was started with (its digest differs)", place)
