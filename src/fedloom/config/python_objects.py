"""What a config cannot hold: parts of a run that are Python objects. Its ``made_by`` names them (``object/model``).

From such a config another experiment would be built, so ``fedloom run`` and ``fedloom resume`` refuse it and say what
is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.registry.kinds import METHODS
from fedloom.registry.nested_keys import select_prefix

MARK = "object/"
METHOD = "method"
CONFIG_KEYS = {"data": "path"}
"""The key of a config's section ``task`` that would name a part, where it is not the part's own name."""


def object_marks(task: Task, algorithm: Algorithm, method: str) -> dict[str, str]:
    """The notes of ``made_by`` about Python objects; ``method`` is what the config calls the method."""
    objects = dict(task.python_objects) if task.made_from else {"task": task.name}
    if ":" not in method and METHODS.name_of(type(algorithm)) != METHODS.canonical(method):
        objects[METHOD] = type(algorithm).__qualname__
    return {f"{MARK}{part}": what for part, what in objects.items()}


def refuse_missing(folder: Path, values: Mapping[str, Any], has_task: bool, has_method: bool, call: str) -> None:
    """Refuse to use the folder of a run whose task or method is a Python object that is not given again.

    Args:
        call: The beginning of a Python call that takes them, for the error message.
    """
    objects = select_prefix(values.get("made_by", {}), MARK)
    method = objects.pop(METHOD, None)
    for part, what, is_given in (("task", _object_list(objects), has_task), ("method", method, has_method)):
        if what and not is_given:
            raise FedloomError(
                f"the {part} of {folder} is a Python object ({what}), which a file cannot store: use "
                f"{call}{part}=...) in Python."
            )


def without_replaced_objects(values: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a config file after changes, without the notes of ``made_by`` that the changes make untrue.

    Args:
        values: The values after the changes.
        before: The values of the file.
    """
    task, old = values.get("task", {}), before.get("task", {})
    notes = dict(values.get("made_by", {}))
    for part in select_prefix(notes, MARK):
        key = CONFIG_KEYS.get(part, part)
        changed = values.get(part) != before.get(part) if part == METHOD else task.get(key) != old.get(key)
        if changed:
            del notes[MARK + part]
    if task != old or any(values.get(key) != before.get(key) for key in ("seed", "start_from", "start_without")):
        notes.pop("task", None)  # the fingerprint of other data, another partition or another model
    for key, note in (("start_from", "start_from"), ("start_without", "start_from"), ("execution", "execution")):
        if values.get(key) != before.get(key):
            notes.pop(note, None)
    return {**values, "made_by": notes} if "made_by" in values else dict(values)


def refuse_to_run(values: Mapping[str, Any], where: str, *, with_method: bool = True) -> None:
    """Refuse values of a config file that lack a Python object.

    Args:
        where: What the error calls them, for instance the path of the file.
        with_method: Whether the method is to be made of them too.
    """
    objects = select_prefix(values.get("made_by", {}), MARK)
    if not with_method:
        objects.pop(METHOD, None)
    if objects:
        raise FedloomError(
            f"{where} does not hold all of its run, because a file cannot hold Python objects ({_object_list(objects)}"
            f"): start the run again from Python, or name what is missing{_how_to_name(objects)}."
        )


def _object_list(objects: Mapping[str, str]) -> str:
    return ", ".join(f"{part}: {what}" for part, what in objects.items())


def _how_to_name(objects: Mapping[str, str]) -> str:
    options = {"model": "--model", "data": "--data", "partition": "--partition", METHOD: "--method"}
    known = [options[part] for part in objects if part in options]
    return f" with {' and '.join(known)}" if len(known) == len(objects) else " in the file"
