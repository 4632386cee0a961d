"""Which columns of a user's table are not inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

EmptyLabels = Literal["missing", "none"]
"""What an empty cell, or list, of a target says: that it is missing, or that the sample has none of the labels."""


@dataclass(frozen=True)
class TableColumns:
    """The columns of a user's table that are not inputs.

    Args:
        target: The column that holds the target, or several between commas.
        client: A column that names the client of a row; the usual one may be missing.
        ignore: Further columns that are left out.
        group: The column that says which rows belong together.
        others: Further columns that may be there and are not inputs.
        empty_labels: What an empty cell of the target says.
    """

    target: str = "label"
    client: str = "client"
    ignore: Sequence[str] = ()
    group: str | None = None
    others: Sequence[str] = ()
    empty_labels: EmptyLabels = "missing"

    @property
    def targets(self) -> list[str]:
        """The columns that the target may be: one, or those between commas."""
        return [self.target, *(name.strip() for name in self.target.split(","))]

    @property
    def names(self) -> list[str]:
        """All of them but those left out: their cells stay texts, also where all look like numbers."""
        return [*self.targets, self.client, *([] if self.group is None else [self.group]), *self.others]


USUAL_COLUMNS = TableColumns()
