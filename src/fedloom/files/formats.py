"""What Fedloom writes to disk or sends: the version number of each format, and how older numbers are read.

Each file or message says its number as ``format``; what says none has the number that its format had before numbers
were written, 1. A format changes by one number at a time, and each step has one migration: a pure function of the
plain values, from number n to n + 1. So whatever an older version wrote goes through all steps after its own, and what
a newer version wrote is refused in one sentence.

| format | where its number is |
|---|---|
| ``SETTINGS`` | ``made_by.format`` of ``config.toml``, ``comparison.toml``, ``sweep.toml``, ``advice.toml`` |
| ``RUN_FOLDER`` | ``format`` of the manifests in ``checkpoints``; it stands for all other files of a run's folder |
| ``SAVED_MODEL`` | ``format`` of a saved model's ``model.json`` |
| ``PARTICIPANT`` | ``format`` of ``deploy.toml`` and ``site.toml``, for all files that ``fedloom deploy init`` writes |
| ``SIGNATURE`` | ``version`` of ``signature.json`` |
| ``MESSAGE`` | ``format`` in the header of a message between server and site |
| ``TICKETS`` | ``format`` of ``tickets.json`` in a deployed run's folder |
| ``CLIENT_STATE`` | the names of the files in a site's ``kept``: format 2 has a digest in them |

Flows, packed flows and exported flow models have a ``version`` of their own kind (``tasks/flows``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedloom.core.errors import FedloomError

Values = dict[str, Any]
Migration = Callable[[Values], Values]


@dataclass(frozen=True)
class Format:
    """One format.

    Args:
        what: What the files are, for sentences.
        version: The number that this version writes.
        migrations: The step from each older number to the next.
    """

    what: str
    version: int
    migrations: Mapping[int, Migration] = field(default_factory=dict)

    def check(self, number: object, where: object) -> int:
        """The number of what was read, from 1 to the one that this version writes; another one is refused.

        Args:
            number: What it says of itself.
            where: The file or folder, for the error.
        """
        if type(number) is not int or number < 1:
            raise FedloomError(f"{where} has the format {number!r}, which is not a number of {self.what}: restore it.")
        if number > self.version:
            raise FedloomError(
                f"{where} was written by a newer Fedloom ({self.what}: format {number}, this one knows "
                f"{self.version}): upgrade Fedloom."
            )
        return number

    def upgrade(self, values: Mapping[str, Any], number: object, where: object) -> Values:
        """The values as this version writes them.

        Args:
            values: What was read.
            number: The number of its format.
            where: The file or folder, for errors.
        """
        upgraded = dict(values)
        for step in range(self.check(number, where), self.version):
            upgraded = self.migrations[step](upgraded)
        return upgraded


def _in_settings(step: Migration) -> Migration:
    """A migration of a config, applied to a plan as well: to the config in it."""

    def migrate(values: Values) -> Values:
        inner = values.get("config")
        return {**step(values), "config": step(inner)} if isinstance(inner, dict) else step(values)

    return migrate


def _rename_keys(values: Values) -> Values:
    """0.4 to 0.5: the key ``personal`` is called ``prediction``."""
    return {"prediction" if key == "personal" else key: value for key, value in values.items()}


def _name_class_order(values: Values) -> Values:
    """0.5 to 0.6: Dirichlet divided classes in the order of their labels, which has to be said now."""
    task = values.get("task")
    if not isinstance(task, dict) or not isinstance(task.get("partition"), dict):
        return values
    partition = task["partition"]
    if partition.get("name") != "dirichlet":
        return values
    return {**values, "task": {**task, "partition": {"class_order": "label", **partition}}}


def _without_digests(values: Values) -> Values:
    """0.5 to 0.6: models had no digests, so nothing can be checked against them."""
    return {"files": {}, "digest": "", **values}


SETTINGS = Format("settings", 3, {1: _in_settings(_rename_keys), 2: _in_settings(_name_class_order)})
RUN_FOLDER = Format("a run's folder", 2)
SAVED_MODEL = Format("a saved model", 2, {1: _without_digests})
PARTICIPANT = Format("a deployment's folder", 1)
SIGNATURE = Format("a signature", 1)
MESSAGE = Format("a message", 1)
TICKETS = Format("tickets", 1)
CLIENT_STATE = Format("a client's state", 2)
