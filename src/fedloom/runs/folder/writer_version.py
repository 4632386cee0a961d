"""Which version wrote a config or a plan, and so which format it has and what must lie beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fedloom.files.formats import SETTINGS

DIGITS = 9
"""Longer numbers are not versions."""
UNMARKED = "0.4"
"""Plans did not name their version up to this one."""
WITH_MANIFESTS = (0, 6)
"""From this version on a run's folder has manifests."""


def settings_format(values: Mapping[str, Any]) -> object:
    """The number of a config's or plan's format; before numbers were written, it follows from the version."""
    notes = _notes(values)
    if "format" in notes:
        written = str(notes["format"])
        return int(written) if written.isdecimal() and len(written) <= DIGITS else written
    version = minor(writer_version(values))
    return 1 if version < (0, 5) else 2 if version == (0, 5) else SETTINGS.version


def writer_version(values: Mapping[str, Any]) -> str:
    """The version that wrote a config or a plan."""
    return str(_notes(values).get("fedloom", UNMARKED))


def has_manifests(values: Mapping[str, Any]) -> bool:
    """Whether the version that wrote a run's config writes manifests beside it."""
    return minor(writer_version(values)) >= WITH_MANIFESTS


def minor(version: str) -> tuple[int, ...]:
    """The first two numbers of a version."""
    return tuple(int(number) for number in re.findall(rf"\d{{1,{DIGITS}}}", version)[:2])


def _notes(values: Mapping[str, Any]) -> Mapping[str, Any]:
    notes = values.get("made_by", {})
    return notes if isinstance(notes, Mapping) else {}
