"""The changes that a task's settings make to a federation: a withheld class, and concept drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fedloom.data.changes.concept_drift import Drift, with_concept_drift
from fedloom.data.changes.withheld_class import Withhold, with_withheld_class
from fedloom.data.federation import Federation
from fedloom.registry.validation import validate


def with_changes(
    federation: Federation,
    withhold: Withhold | Mapping[str, Any] | None,
    drift: Drift | Mapping[str, Any] | None,
    seed: int,
) -> Federation:
    """The federation with a class withheld and with concept drift, where settings are given for them."""
    if withhold is not None:
        federation = with_withheld_class(federation, seed=seed, **asdict(validate(Withhold, withhold, "withhold")))
    if drift is not None:
        federation = with_concept_drift(federation, seed=seed, **asdict(validate(Drift, drift, "drift")))
    return federation
