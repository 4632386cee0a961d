"""What a user says of a table with a row per time step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from fedloom.core.settings import check_settings


@dataclass(frozen=True)
class Sequences:
    """A table with a row per time step (``task.sequences``).

    Args:
        series: The column that says which sample a row is a step of.
        order: The column of numbers by which the steps of a sample are sorted; by default they stand in their order.
        steps: How many steps of a sample are read, its first ones; by default as many as the longest training sample
            has.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    series: str
    order: str | None = None
    steps: Annotated[int, Ge(1), Le(100_000)] | None = None

    def __post_init__(self) -> None:
        check_settings(self, "sequences")
