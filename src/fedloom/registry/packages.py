"""Parts that installed packages offer: their entry points in the groups ``fedloom.methods``, ``fedloom.metrics`` ...

They are looked up only where a name is not built in, or where all names are listed: reading the metadata of everything
that is installed takes longer than a small run needs to start.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.registry.user_errors import describe_error

log = logging.getLogger("fedloom")


@dataclass(frozen=True)
class PackagePart:
    """A part that a package offers: its name, where it is (``package.module:Class``), and the package's name."""

    name: str
    where: str
    package: str

    def load(self, what: str) -> Any:
        """The object of the package.

        Args:
            what: What an error calls it, for instance ``method``.
        """
        try:
            return load_object(self.where)
        except (Exception, SystemExit) as error:  # whatever the package raises
            raise FedloomError(
                f"{what} '{self.name}' of the package {self.package} cannot be imported ({describe_error(error)}): "
                "install a version that fits, or uninstall it."
            ) from error


@cache
def package_parts(group: str) -> Mapping[str, PackagePart]:
    """The parts of one kind that packages offer, by name.

    Args:
        group: The group of their entry points.
    """
    from importlib.metadata import entry_points

    found: dict[str, PackagePart] = {}
    for entry in sorted(entry_points(group=group), key=lambda one: (one.name, one.value)):
        part = PackagePart(entry.name, entry.value, "unknown" if entry.dist is None else entry.dist.name)
        other = found.setdefault(entry.name, part)
        if other.where != part.where:
            raise FedloomError(
                f"the packages {other.package} and {part.package} both offer '{entry.name}' in {group}: uninstall one."
            )
    return found


@cache
def warn_of_clashes(group: str, builtin: Collection[str]) -> None:
    """Warn once of parts of packages that have the name of a built-in one, which is the one that is used.

    Args:
        group: The group of the packages' entry points.
        builtin: The names of the built-in parts.
    """
    for part in package_parts(group).values():
        if part.name in builtin:
            log.warning("'%s' of the package %s is not used: Fedloom has a part of that name", part.name, part.package)


def load_object(where: str) -> Any:
    """Import what ``package.module:object`` names."""
    module, _, path = where.partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found
