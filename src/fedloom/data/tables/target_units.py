"""Mean and standard deviation of numeric training targets: a model learns them standardised.

These are three sums per client, so a real federation can compute them without revealing a sample.
"""

from __future__ import annotations

from fedloom.core.targets import target_kind
from fedloom.core.task import FederationView


def target_units(federation: FederationView) -> tuple[float, float] | None:
    """Mean and standard deviation of the training targets (1 where they do not vary); None if they are no numbers."""
    y = federation.columns["y"]
    if target_kind(y) != "number":
        return None
    values = y[federation.train.order].double()
    spread = float(values.std(correction=0))
    return float(values.mean()), spread if spread > 0 else 1.0
