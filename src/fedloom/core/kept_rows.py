"""What clients keep between rounds under one name: a row each, and who has one.

Clients join and are selected at different times, so a name is rarely kept by all of them; rows and mask always travel
together. Only where tensors are nothing but named bytes (in a site's files and between processes) is the mask a tensor
beside the rows, ``NAME/has``: ``pack_kept`` and ``unpack_kept`` are the way there and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

HAS = "/has"


@dataclass(frozen=True, eq=False, slots=True)
class KeptRows:
    """What some clients kept under a name.

    Args:
        rows: A row of any shape per client; it means nothing where a client has kept none.
        has: A mask of the clients that have kept one.
    """

    rows: Tensor
    has: Tensor

    @staticmethod
    def of_all(rows: Tensor) -> KeptRows:
        """Rows that every client has kept."""
        return KeptRows(rows, torch.ones(len(rows), dtype=torch.bool))

    @staticmethod
    def of_nobody(rows: Tensor) -> KeptRows:
        """What clients have that kept nothing yet; rows of the same shape show what they may keep."""
        return KeptRows(torch.zeros_like(rows), torch.zeros(len(rows), dtype=torch.bool))

    def only(self, places: Tensor) -> KeptRows:
        """What the clients at some places kept."""
        return KeptRows(self.rows[places], self.has[places])

    def where(self, mask: Tensor, other: KeptRows) -> KeptRows:
        """This for the clients of a mask, and ``other`` for the others."""
        return KeptRows(torch.where(self._per_row(mask), self.rows, other.rows), torch.where(mask, self.has, other.has))

    def or_default(self, default: Tensor) -> Tensor:
        """The rows; a client that has kept none gets its row of ``default``."""
        return self.rows if bool(self.has.all()) else torch.where(self._per_row(self.has), self.rows, default)

    def _per_row(self, mask: Tensor) -> Tensor:
        return mask.view(-1, *[1] * (self.rows.dim() - 1))


def pack_kept(kept: Mapping[str, KeptRows], prefix: str = "") -> dict[str, Tensor]:
    """What clients kept as named tensors, for files and other processes.

    Args:
        kept: What they kept, by name.
        prefix: What the names of the tensors begin with.
    """
    named: dict[str, Tensor] = {}
    for name, one in kept.items():
        named[f"{prefix}{name}"], named[f"{prefix}{name}{HAS}"] = one.rows, one.has.float()
    return named


def unpack_kept(tensors: Mapping[str, Tensor], prefix: str = "") -> dict[str, KeptRows]:
    """What ``pack_kept`` packed.

    Args:
        tensors: The named tensors; those without the prefix are something else.
        prefix: What the names begin with.
    """
    names = [name for name in tensors if name.startswith(prefix) and f"{name}{HAS}" in tensors]
    return {name[len(prefix) :]: KeptRows(tensors[name], tensors[f"{name}{HAS}"].bool()) for name in names}
