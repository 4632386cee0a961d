"""The server set: samples that only the server has, with or without labels.

They are a share of the clients' training data, another data set with inputs of the same shape (CIFAR-10 for clients of
CIFAR-100), or a user's file. Labels of another data set keep their own numbering.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.inputs import input_names, input_shapes
from fedloom.core.seeds import numpy_generator
from fedloom.core.settings import PositiveShare, check_settings
from fedloom.core.targets import IGNORED, target_kind
from fedloom.data.carve import carve
from fedloom.data.changes.communal_set import share_as_table
from fedloom.data.datasets.dataset import dataset
from fedloom.data.federation import Federation
from fedloom.data.public_arrays import IN_MEMORY, PublicArrays
from fedloom.data.public_samples import (
    append_samples,
    has_targets,
    read_public_file,
    refuse_later_data,
    without_targets,
)
from fedloom.data.tables.schema import SampleColumns
from fedloom.data.tables.table_columns import USUAL_COLUMNS, TableColumns

SETTING = "server_set"


@dataclass(frozen=True)
class ServerSet:
    """The settings of a server set, as a task's configuration holds them (``task.server_set``).

    Args:
        share: The share of each client's training samples, or of the other data set's (all of them by default).
        data: The name of another data set.
        path: A file of samples: an NPZ file, or a table if the task's data are one.
        labelled: Whether the samples keep their labels; a file without targets has none to keep.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    share: PositiveShare | None = None
    data: str | None = None
    path: str | None = None
    labelled: bool = True

    def __post_init__(self) -> None:
        check_settings(self, "server_set")
        if self.data is not None and self.path is not None:
            raise FedloomError("server_set: data and path both name samples: give one.")
        if self.path is not None and self.share is not None:
            raise FedloomError("server_set: a file is used as a whole: leave out share, or path.")
        if self.path is None and self.data is None and self.share is None:
            raise FedloomError("server_set: give the share of the training data, another data set, or a path.")

    def classes(self, own: int) -> int:
        """How many classes the labels name: those of the other data set, or the task's own."""
        return own if self.data is None else dataset(self.data).classes


def server_table(value: object) -> object:
    """The value of ``task.server_set`` as a table."""
    return share_as_table(value, ServerSet, "task.server_set", "{path = 'public.npz'} or {data = 'mnist'}")


def with_server_set(
    federation: Federation,
    server: ServerSet | PublicArrays,
    seed: int = 0,
    table: TableColumns = USUAL_COLUMNS,
) -> Federation:
    """A federation whose server has samples of its own.

    Args:
        server: Where the samples come from, and whether they keep their labels; or the samples.
        seed: The seed of the choice.
        table: Which columns of a table are not inputs.
    """
    refuse_later_data(federation, SETTING)
    labelled, is_foreign = server.labelled, isinstance(server, ServerSet) and server.data is not None
    if isinstance(server, PublicArrays):
        source = IN_MEMORY
        left, chosen = append_samples(federation, server.samples(federation, SETTING), SETTING, source)
    elif server.data is not None:
        samples, source = _of_data_set(federation, server, seed), dataset(server.data).name
        left, chosen = append_samples(federation, samples, SETTING, source)
    elif server.path is not None:
        path = Path(server.path).expanduser()
        source = path.name
        labelled = labelled and has_targets(path, table)
        samples = read_public_file(path, federation, labelled, table)
        left, chosen = append_samples(federation, samples, SETTING, source)
    else:
        left, chosen = carve(federation, server.share or 0.0, SETTING, seed)
        source = f"{server.share:.4g} of every client's training samples"
    if not labelled:
        left = without_targets(left, chosen, SETTING)
    note = f"server_set: {len(chosen):,} samples that only the server has, {source}"
    notes = (*left.notes, f"{note}{'' if labelled else ', without labels'}.")
    classes = server.classes(federation.classes) if isinstance(server, ServerSet) else federation.classes
    return replace(
        left,
        server=chosen,
        server_labelled=labelled,
        server_classes=classes,
        server_is_foreign=is_foreign,
        notes=notes,
    )


def _of_data_set(federation: Federation, server: ServerSet, seed: int) -> SampleColumns:
    """A share of another data set's training samples, which must have the same inputs."""
    entry = dataset(str(server.data))
    samples = entry.samples()
    names = input_names(federation.columns)
    if input_names(samples.columns) != names or input_shapes(samples.columns) != input_shapes(federation.columns):
        raise FedloomError(
            f"server_set: the inputs of {entry.name} have shape {input_shapes(samples.columns)}, those of the task "
            f"{input_shapes(federation.columns)}: give a data set with the same."
        )
    for name in names:
        here, there = federation.columns[name].dtype, samples.columns[name].dtype
        if here != there:
            raise FedloomError(f"server_set: the inputs of {entry.name} are {there}, those of the task {here}.")
    pool = np.ones(len(samples.columns["y"]), dtype=bool)
    if samples.global_test is not None:
        pool[samples.global_test] = False
    places = np.flatnonzero(pool)
    count = max(1, int(len(places) * (1.0 if server.share is None else server.share) + 0.5))
    drawn = numpy_generator(seed, "server_set").permutation(len(places))[:count]
    chosen = torch.from_numpy(np.sort(places[drawn]))
    picked = {name: samples.columns[name][chosen] for name in names}
    return picked | {"y": _targets(federation, samples.columns["y"][chosen], server.labelled, entry.name)}


def _targets(federation: Federation, y: Tensor, labelled: bool, name: str) -> Tensor:
    """The other data set's targets in a column of the task's kind; ``IGNORED`` where they are not wanted."""
    own = federation.columns["y"]
    if not labelled:
        return torch.full((len(y), *own.shape[1:]), IGNORED, dtype=own.dtype)
    if target_kind(y) != "classes" or target_kind(own) != "classes":
        raise FedloomError(f"server_set: the targets of {name} or of the task are not classes: set labelled = false.")
    return y.to(own.dtype)
