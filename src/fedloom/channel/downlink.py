"""How models go down to clients: its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from fedloom.core.settings import check_settings

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

    def __post_init__(self) -> None:
        check_settings(self, "downlink")
