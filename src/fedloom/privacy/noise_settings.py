"""Settings of noise: what protects nobody is refused."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le

LEAST_NOISE, LARGEST_NOISE = 1e-12, 1e6
"""Noise is a deviation divided by a clip norm; outside of these bounds accounting is not possible, and useless."""
Noise = Annotated[float, Ge(LEAST_NOISE), Le(LARGEST_NOISE)]

SCORES = (
    "protects what clients send, and not scores: set eval_every = 0, and evaluate the model at the sites afterwards"
)
"""Why noise of clients' own needs that no score leaves them."""
