"""The changes that a task's settings make to a federation: a withheld class, and concept drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fedloom.core.validation import validate
from fedloom.data.concept_drift import Drift, with_concept_drift
from fedloom.data.federation import Federation
from fedloom.data.withheld_class import Withhold, with_withheld_class


def with_changes(
    federation: Federation,
    withhold: Withhold | Mapping[str, Any] | None,
    drift: Drift | Mapping[str, Any] | None,
    seed: int,
) -> tuple[Federation, dict[str, Any]]:
    """The federation with a class withheld and with concept drift, where settings are given for them.

    Returns:
        The changed federation, and the complete settings of each change under its config key.
    """
    settings: dict[str, Any] = {}
    if withhold is not None:
        settings["withhold"] = asdict(validate(Withhold, withhold, "withhold"))
        federation = with_withheld_class(federation, seed=seed, **settings["withhold"])
    if drift is not None:
        settings["drift"] = asdict(validate(Drift, drift, "drift"))
        federation = with_concept_drift(federation, seed=seed, **settings["drift"])
    return federation, settings
