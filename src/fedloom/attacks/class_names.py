"""Classes by their numbers or names, as attacks name them."""

from __future__ import annotations

from collections.abc import Sequence

from fedloom.core.errors import FedloomError
from fedloom.core.task import Task

PREFIXES = ("B-", "I-")
"""How a tag begins that says where in a name a token is: at its beginning, or inside."""


def classes_named(one: int | str, task: Task, attack: str) -> list[int]:
    """The numbers of the classes that somebody names: one, or the tags ``B-PER`` and ``I-PER`` of ``PER``.

    Args:
        one: A number, or a name.
        task: The task whose classes are meant.
        attack: What a message calls the attack.
    """
    names, classes = list(task.federation.class_names), task.federation.classes
    if isinstance(one, int):
        if not 0 <= one < classes:
            raise FedloomError(
                f"{attack}: class {one} does not exist: task {task.name} has classes 0 to {classes - 1}."
            )
        return [one]
    if one in names:
        return [names.index(one)]
    tags = [names.index(prefix + one) for prefix in PREFIXES if prefix + one in names]
    if not tags:
        raise FedloomError(f"{attack}: class '{one}' does not exist: task {task.name} has {_shown(names)}.")
    return tags


def _shown(names: Sequence[str]) -> str:
    shown = ", ".join(names[:10])
    return f"{shown}, …" if len(names) > 10 else shown or "classes without names: use numbers"
