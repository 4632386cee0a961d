"""Sparse matrices times dense ones, as a graph network needs them.

A product with a sparse matrix is a weighted sum of rows for each of its rows, which is what torch's embedding bags
compute, in two thirds of the time of its CSR product at the sizes of a client's graph (docs/graphs.md has numbers). The
gradient goes to the dense side only and is the product with the transposed matrix, whose order is worked out once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Sparse:
    """Compressed rows: row i has ``values[starts[i]:starts[i + 1]]`` at these ``columns``, of ``width`` in all."""

    starts: Tensor
    columns: Tensor
    values: Tensor
    width: int
    symmetric: bool = False
    """Whether it is its own transpose, in the values too."""

    @staticmethod
    def of(rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int], symmetric: bool = False) -> Sparse:
        """From coordinates, each place once, in any order."""
        order = torch.argsort(rows * shape[1] + columns)
        starts = torch.zeros(shape[0] + 1, dtype=torch.int64)
        torch.cumsum(torch.bincount(rows, minlength=shape[0]), 0, out=starts[1:])
        return Sparse(starts, columns[order], values[order], shape[1], symmetric)

    @staticmethod
    def from_dense(matrix: Tensor) -> Sparse:
        """From a dense matrix."""
        rows, columns = matrix.nonzero(as_tuple=True)
        return Sparse.of(rows, columns, matrix[rows, columns].float(), (matrix.shape[0], matrix.shape[1]))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def rows(self) -> Tensor:
        """The row of every value."""
        return torch.repeat_interleave(torch.arange(len(self)), self.starts[1:] - self.starts[:-1])

    def to_dense(self) -> Tensor:
        """The whole matrix, zeros written out."""
        full = torch.zeros(len(self), self.width)
        full[self.rows, self.columns] = self.values
        return full

    def pick(self, rows: Tensor) -> Sparse:
        """Some rows, in the order given."""
        starts, sizes = self.starts[rows], (self.starts[1:] - self.starts[:-1])[rows]
        ends = torch.cumsum(sizes, 0)
        entries = torch.repeat_interleave(starts - (ends - sizes), sizes) + torch.arange(int(sizes.sum()))
        first = torch.zeros(1, dtype=torch.int64)
        return Sparse(torch.cat([first, ends]), self.columns[entries], self.values[entries], self.width)

    def normalise_rows(self) -> Sparse:
        """Every row divided by its sum; a row that sums to zero stays as it is."""
        sums = torch.zeros(len(self), dtype=torch.float64).index_add_(0, self.rows, self.values.double())
        sums = torch.where(sums == 0, 1.0, sums)
        return replace(self, values=(self.values.double() / sums[self.rows]).float())

    def compact(self) -> tuple[Sparse, Tensor]:
        """The matrix without its empty columns, and which columns are left."""
        used, columns = torch.unique(self.columns, return_inverse=True)
        return replace(self, columns=columns, width=len(used), symmetric=False), used

    @cached_property
    def _transpose_order(self) -> tuple[Tensor, Tensor, Tensor]:
        """Starts and columns of the transpose, and where each of its values stands here."""
        order = torch.from_numpy(np.argsort(self.columns.numpy(), kind="stable"))
        starts = torch.zeros(self.width + 1, dtype=torch.int64)
        torch.cumsum(torch.bincount(self.columns, minlength=self.width), 0, out=starts[1:])
        return starts, self.rows[order], order

    @cached_property
    def transpose(self) -> Sparse:
        """The transpose; itself where the matrix is symmetric."""
        if self.symmetric:
            return self
        starts, columns, order = self._transpose_order
        return Sparse(starts, columns, self.values.index_select(0, order), len(self))

    def with_values(self, values: Tensor) -> Sparse:
        """The same places with other values (features of which some are dropped)."""
        other = replace(self, values=values, symmetric=False)
        other.__dict__["_transpose_order"] = self._transpose_order  # the order does not depend on the values
        return other

    def __matmul__(self, dense: Tensor) -> Tensor:
        """The product, differentiable in ``dense``."""
        product: Tensor = _SparseProduct.apply(dense, self)  # type: ignore[no-untyped-call]
        return product


class _SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: Sparse) -> Tensor:
        ctx.matrix = matrix
        return torch.embedding_bag(dense.detach(), matrix.columns, matrix.starts, False, 0, False, matrix.values, True)[
            0
        ]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.transpose @ gradients[0].contiguous(), None
