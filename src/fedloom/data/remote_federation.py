"""A federation as the server of a deployment sees it: how many samples each site has, and none of them.

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
from fedloom.data.tables.schema import ClientSizes, DataSchema, SampleColumns

UNKNOWN_SIZES = ClientSizes(1, 0, 0, 1)
"""The sizes of a site that has not announced any."""


@dataclass(frozen=True, repr=False)
class RemoteFederation(Federation):
    """A federation of sizes. It has no labels, so it counts a client's samples and not its classes."""

    def counts(self) -> np.ndarray:
        """Training samples per client, in one column."""
        return self.train.sizes.numpy()[:, None].copy()


def remote_federation(
    schema: DataSchema,
    sizes: Mapping[int, ClientSizes],
    communal: SampleColumns | None,
    global_test: SampleColumns | None,
    server_set: SampleColumns | None = None,
) -> RemoteFederation:
    """The server's federation of column data.

    Args:
        schema: Inputs, classes and sites.
        sizes: The announced sizes by client; a client that is missing counts as having one training sample.
        communal: The samples that everyone may see.
        global_test: The server's test set.
        server_set: The server's own samples.
    """
    everyone = sizes_of_all(sizes, len(schema.sites))
    zeros = {column.full_name: column.zeros(1) for column in schema.input_columns}
    zeros["y"] = torch.zeros(1, *schema.target_shape, dtype=schema.target_type)
    columns, (first, second, third) = join_columns(zeros, [communal, global_test, server_set])
    return RemoteFederation(
        columns=columns,
        train=placeholder_lists([one.train for one in everyone]),
        valid=placeholder_lists([one.valid for one in everyone]),
        test=placeholder_lists([one.test for one in everyone]),
        classes=schema.classes,
        global_test=second,
        communal=first,
        server=third,
        names=schema.sites,
        class_names=schema.labels if schema.classes > 1 else (),
        title="sites",
        counted=torch.tensor([one.points for one in everyone]),
    )


def sizes_of_all(sizes: Mapping[int, ClientSizes], clients: int) -> list[ClientSizes]:
    """The sizes of all clients; one that has not announced any counts as having a single sample."""
    return [sizes.get(client, UNKNOWN_SIZES) for client in range(clients)]


def placeholder_lists(lengths: Sequence[int]) -> Ragged:
    """Lists of these lengths in which every position is 0; they take no memory."""
    starts = torch.zeros(len(lengths) + 1, dtype=torch.int64)
    torch.cumsum(torch.tensor(lengths), 0, out=starts[1:])
    return Ragged(torch.zeros(1, dtype=torch.int64).expand(int(starts[-1])), starts)


def lists_of_site(positions: Tensor, client: int, clients: int) -> Ragged:
    """The positions of one site at its client number; the others, which are never used here, hold the first of them."""
    return Ragged.of([positions if number == client else positions[:1] for number in range(clients)])


def join_columns(own: SampleColumns, others: Sequence[SampleColumns | None]) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Columns with other samples appended, and the positions of each of the others."""
    real = [some if some is not None else {name: column[:0] for name, column in own.items()} for some in others]
    ends = np.cumsum([len(own["y"]), *(len(some["y"]) for some in real)])
    columns = {name: torch.cat([column, *(some[name] for some in real)]) for name, column in own.items()}
    return columns, [torch.arange(start, end) for start, end in pairwise(ends.tolist())]
