"""State that stays with clients between rounds: a matrix per name, one row per client.

Rows are allocated when a name is first written. A large matrix lives in an unlinked temporary file that is mapped into
memory, so ten thousand personal heads cost disk, not memory. Rows that changed since the last checkpoint are tracked.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fedloom.core.kept_rows import KeptRows

MAPPED_BYTES = 64 << 20
"""Matrices of at least this many bytes are memory-mapped."""


class ClientStates:
    """Named rows of all clients."""

    def __init__(self, clients: int) -> None:
        self.clients = clients
        self.rows: dict[str, Tensor] = {}
        self.has: dict[str, Tensor] = {}
        self.dirty: dict[str, set[int]] = {}

    def read(self, ids: list[int]) -> dict[str, KeptRows]:
        """What some clients kept, by name."""
        index = torch.tensor(ids)
        return {name: KeptRows(rows[index], self.has[name][index]) for name, rows in self.rows.items()}

    def write(self, ids: list[int], kept: Mapping[str, KeptRows]) -> None:
        """Write the rows of those of some clients that have one."""
        everyone = torch.tensor(ids)
        for name, one in kept.items():
            index, rows = everyone[one.has], one.rows[one.has]
            if not len(index):
                continue
            if name not in self.rows:
                self.rows[name] = _matrix(self.clients, tuple(rows.shape[1:]), rows.dtype)
                self.has[name] = torch.zeros(self.clients, dtype=torch.bool)
            self.rows[name][index] = rows
            self.has[name][index] = True
            self.dirty.setdefault(name, set()).update(index.tolist())

    def changes(self) -> dict[str, Tensor]:
        """The rows changed since the last call, as tensors for a checkpoint: ``name`` and ``name/ids``."""
        saved: dict[str, Tensor] = {}
        for name, ids in sorted(self.dirty.items()):
            index = torch.tensor(sorted(ids))
            saved[name], saved[f"{name}/ids"] = self.rows[name][index], index
        self.dirty = {}
        return saved

    def everything(self) -> dict[str, Tensor]:
        """All kept rows, in the same form."""
        for name, has in self.has.items():
            self.dirty[name] = set(has.nonzero().flatten().tolist())
        return self.changes()

    def copy(self) -> ClientStates:
        """The same rows, which later writes do not change."""
        copied = ClientStates(self.clients)
        everything = {name: KeptRows(rows, self.has[name]) for name, rows in self.rows.items()}
        copied.write(list(range(self.clients)), everything)
        copied.dirty = {}
        return copied

    def restore(self, saved: Mapping[str, Tensor]) -> None:
        """Apply rows that ``changes`` or ``everything`` returned."""
        for name in (name for name in saved if not name.endswith("/ids")):
            self.write(saved[f"{name}/ids"].tolist(), {name: KeptRows.of_all(saved[name])})
        self.dirty = {}


def _matrix(clients: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    size = clients * int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if size < MAPPED_BYTES:
        return torch.zeros(clients, *shape, dtype=dtype)
    with tempfile.TemporaryFile(prefix="fedloom-kept-") as file:
        file.truncate(size)
        mapped = np.memmap(file, dtype=np.uint8, mode="r+", shape=(size,))
    return torch.from_numpy(mapped).view(dtype).view(clients, *shape)
