"""What a round's record says of those who took part. This file has no torch: pages that only read records load it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DRAWN = "drawn_on_average"
"""The key that says how many clients a round has on average, where nobody may learn who was drawn."""
HOSTILE = "hostile"
"""The key of round 0 that says which clients an attack makes hostile."""


def turns_of(record: Mapping[str, Any]) -> float:
    """How many clients took part in a round, by its record: on average, where nobody may learn who did."""
    return float(record.get(DRAWN, len(record.get("selected", ()))))
