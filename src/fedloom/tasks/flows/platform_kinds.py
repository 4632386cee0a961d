"""The kinds and subkinds of actions on the thesis' platform, and how often they occur.

Table B.1 has the frequency of each kind in percent: mean and standard deviation over the 33 clients. Table B.2 has the
same for subkinds, where three kinds are split further and all others keep their row. Of B.2's 195 rows those above
0.00 % are given by name; the others (0.00 %) are numbered here, so that a model has as many classes as in the thesis. A
deviation is None where it is not reported.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple


class Frequency(NamedTuple):
    """The frequency of a class in percent: mean and standard deviation over the clients of the thesis."""

    mean: float
    std: float | None = None


START = "Start"
ENDS = ("End", "RaiseError")

NEVER_TARGETS = (START, "Comment", "ErrorHandler")
"""Kinds that are in the table with 0.00 %: they are never predicted."""

THESIS_NUMBERS = tomllib.loads(Path(__file__).with_name("thesis_statistics.toml").read_text("utf-8"))
"""What the thesis prints of its data."""

KINDS: Mapping[str, Frequency] = MappingProxyType(
    {kind: Frequency(*row) for kind, row in THESIS_NUMBERS["kinds"].items()}
)
"""Table B.1, without the prefixes ``Nodes.`` and ``NRNodes.``."""

TARGETS = tuple(kind for kind in KINDS if kind not in NEVER_TARGETS)
"""The kinds that are predicted."""

SPLIT: Mapping[str, int] = MappingProxyType(THESIS_NUMBERS["classes"])
"""The kinds that table B.2 splits, with their number of classes there."""


def _rows() -> dict[str, Frequency]:
    """Table B.2 in the order of table B.1: whole kinds as they are, split kinds by their named and numbered parts."""
    rows: dict[str, Frequency] = {}
    for kind, frequency in KINDS.items():
        if kind not in SPLIT:
            rows[kind] = frequency
            continue
        parts = THESIS_NUMBERS["parts"][kind]
        rows |= {f"{kind}/{part}": Frequency(*row) for part, row in parts.items()}
        rows |= {f"{kind}/Rare {i + 1}": Frequency(0.0) for i in range(SPLIT[kind] - len(parts))}
    return rows


SUBKINDS: Mapping[str, Frequency] = MappingProxyType(_rows())
"""Table B.2: 195 classes, named ``kind`` or ``kind/part``."""


def kind_of(subkind: str) -> str:
    """The kind a subkind belongs to: ``If`` for ``If/Empty``, ``Assign`` for ``Assign``."""
    return subkind.partition("/")[0]
