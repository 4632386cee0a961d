"""How models go down to clients: its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts

TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
"""Types of numbers of 16 bits."""


@dataclass(frozen=True)
class Downlink:
    """Models go down to clients in fewer bits, rounded to nearest; clients compute in 32 bits as ever.

    The server takes what arrived, not what it had, for what its clients started from.

    Args:
        precision: ``float16`` is off by at most ``2^-11`` of a number and ends at 65,504; ``bfloat16`` by at most
            ``2^-8``, and ends where 32 bits do.
        delta: Whether a client that has the last model gets the difference to it, in 8 bits per number; others get the
            whole model in 32. What rounding leaves out is in the next difference. ``precision`` is not used then.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    precision: Literal["float16", "bfloat16"] = "float16"
    delta: bool = False

    @property
    def needs(self) -> Facts:
        """What the downlink needs of other parts, and why."""
        codes = "codes the model that goes down: leave out downlink"
        found = {Fact.MODEL_DOWN: codes, Fact.EXCHANGES: codes}
        if not self.delta:
            return found
        return found | {
            Fact.SAME_WEIGHTS: "with delta sends differences to a whole model: leave out one of the two",
            Fact.ALL_ANSWER: "with delta needs to know who has the model, which answers tell: leave out one of the two",
            Fact.SAME_MODEL: "with delta is for a model that all clients get: leave it out",
            Fact.FROM_SERVER: "with delta is for models that the server sends: leave it out",
        }

    @property
    def breaks(self) -> Facts:
        """What other parts cannot rely on, and why."""
        one = {Fact.MIXED_MODELS: "is made for one model: leave it out, or task.models"}
        return one | ({Fact.SAME_START: "sends other bytes to who has the last model"} if self.delta else {})

    def __post_init__(self) -> None:
        if self.precision not in TYPES:
            raise FedloomError(f"downlink: precision={self.precision!r}: use float16 or bfloat16.")
