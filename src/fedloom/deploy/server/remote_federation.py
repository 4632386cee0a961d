"""A federation as the server of a real one sees it: how many samples each site has, and none of them.

Every position of a client points at one sample of zeros. Only the global test set and the communal samples are real.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from fedloom.data.federation import Federation, Ragged
from fedloom.deploy.protocol.schema import ABSENT, Schema, Sizes

Columns = Mapping[str, Tensor]
"""The inputs ``x`` and targets ``y`` of some samples."""


@dataclass(frozen=True)
class RemoteFederation(Federation):
    """A federation of sizes. It knows no labels, so it counts the samples of a client and not its classes."""

    def counts(self) -> np.ndarray:
        """Training samples per client, in one column."""
        return self.train.sizes.numpy()[:, None].copy()


def known(sizes: Mapping[int, Sizes], clients: int) -> list[Sizes]:
    """The sizes of all clients; one that has not said counts as having a single sample."""
    return [sizes.get(client, ABSENT) for client in range(clients)]


def nowhere(lengths: Sequence[int]) -> Ragged:
    """Lists of these lengths whose every position is 0; they take no memory."""
    starts = torch.zeros(len(lengths) + 1, dtype=torch.int64)
    torch.cumsum(torch.tensor(lengths), 0, out=starts[1:])
    return Ragged(torch.zeros(1, dtype=torch.int64).expand(int(starts[-1])), starts)


def hollow(
    schema: Schema, sizes: Mapping[int, Sizes], communal: Columns | None, global_test: Columns | None
) -> RemoteFederation:
    """The server's federation of column data."""
    told = known(sizes, len(schema.sites))
    zeros = {
        "x": torch.zeros(1, *schema.shape, dtype=schema.input_type),
        "y": torch.zeros(1, *schema.target_shape, dtype=schema.target_type),
    }
    columns, (first, second) = joined(zeros, [communal, global_test])
    return RemoteFederation(
        columns=columns,
        train=nowhere([one.train for one in told]),
        valid=nowhere([one.valid for one in told]),
        test=nowhere([one.test for one in told]),
        classes=schema.classes,
        global_test=second,
        communal=first,
        names=schema.sites,
        class_names=("all classes",),
        title="sites",
        counted=torch.tensor([one.points for one in told]),
    )


def joined(own: Columns, others: Sequence[Columns | None]) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Columns with other samples behind them, and the positions of each of the others."""
    real = [some if some is not None else {name: column[:0] for name, column in own.items()} for some in others]
    ends = np.cumsum([len(own["y"]), *(len(some["y"]) for some in real)])
    columns = {name: torch.cat([column, *(some[name] for some in real)]) for name, column in own.items()}
    return columns, [torch.arange(start, end) for start, end in pairwise(ends.tolist())]
