"""Tensors in shared memory between a parent and its forked workers.

One process writes named tensors and sends the others a small header; they read views of the same memory. The memory
has no name in any file system, so nothing is left behind however a process ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping

import torch
from torch import Tensor

Header = list[tuple[str, str, tuple[int, ...], int]]
"""Name, dtype, shape and offset of each tensor."""

ALIGNMENT = 64


class SharedTensors:
    """A growing piece of shared memory. Create it before the fork that shares it."""

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self.file = os.memfd_create("fedloom")
        else:
            with tempfile.TemporaryFile() as file:
                self.file = os.dup(file.fileno())
        self.map: mmap.mmap | None = None

    def _memory(self, size: int) -> mmap.mmap:
        if self.map is None or len(self.map) < size:
            self.map = mmap.mmap(self.file, os.fstat(self.file).st_size)
        return self.map

    def write(self, tensors: Mapping[str, Tensor]) -> Header:
        """Write tensors; what was there before is overwritten."""
        header: Header = []
        offset = 0
        for name, tensor in tensors.items():
            header.append((name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), offset))
            offset += -(-tensor.nbytes // ALIGNMENT) * ALIGNMENT
        if offset > os.fstat(self.file).st_size:
            os.ftruncate(self.file, max(offset, mmap.PAGESIZE))
        for name, view in self.read(header).items():
            view.copy_(tensors[name])
        return header

    def read(self, header: Header) -> dict[str, Tensor]:
        """Views of the written tensors, valid until the next write."""
        sizes = [_bytes(dtype, shape) + offset for _, dtype, shape, offset in header]
        if not sizes or max(sizes) == 0:
            return {name: torch.zeros(shape, dtype=getattr(torch, dtype)) for name, dtype, shape, _ in header}
        mapped = self._memory(max(sizes))
        views = {}
        for name, dtype, shape, offset in header:
            kind = getattr(torch, dtype)
            count = _bytes(dtype, shape) // kind.itemsize
            flat = torch.frombuffer(mapped, dtype=kind, count=count, offset=offset) if count else torch.zeros(0)
            views[name] = flat.to(kind).view(shape)
        return views

    def close(self) -> None:
        """Release this process's share of the memory."""
        self.map = None
        if self.file >= 0:
            os.close(self.file)
        self.file = -1  # it may be closed again, when its number is another file's


def _bytes(dtype: str, shape: tuple[int, ...]) -> int:
    count: int = getattr(torch, dtype).itemsize
    for side in shape:
        count *= side
    return count
