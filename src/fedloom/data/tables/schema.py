"""The schema of a task's data: what a site's own data, or new samples to predict, must look like.

It is taken from the simulated task when a deployment is made. Class numbers, the order of columns and the
normalisation are the schema's at every site, whatever a site's own data would suggest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.inputs import PREFIX
from fedloom.core.targets import TargetKind, Units, target_kind
from fedloom.core.task import FederationView
from fedloom.data.input_plan import InputPlan
from fedloom.data.media.image_plan import ImagePlan
from fedloom.data.media.sound_plan import SoundPlan
from fedloom.data.sequences.sequence_plan import SequencePlan
from fedloom.data.tables.column_plan import ColumnPlan

StoredPlan = ColumnPlan | ImagePlan | SoundPlan | SequencePlan
"""The classes of plans, of which the fields of each fit no other: a plan is read back as what it was."""
SampleColumns = Mapping[str, Tensor]
"""Some samples as plain tensors by name: inputs ``x`` (or ``x/NAME``) and targets ``y``, or the parts of a graph."""
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in (torch.float32, torch.uint8, torch.int16, torch.int64)}


class ClientSizes(NamedTuple):
    """How many samples a client has in each part, and how many points it counts as having in all."""

    train: int
    valid: int
    test: int
    points: int

    @staticmethod
    def of(federation: FederationView, client: int) -> ClientSizes:
        """The sizes of one client of a federation."""
        train, valid, test = (len(part[client]) for part in (federation.train, federation.valid, federation.test))
        return ClientSizes(train, valid, test, int(federation.points[client]))


class InputColumn(BaseModel):
    """One input column of a schema: the shape and type of an entry, and how it is prepared."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """``x`` where there is only one."""
    shape: tuple[int, ...]
    dtype: str
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    symbols: bool = False

    @property
    def full_name(self) -> str:
        """The name of the federation's column."""
        return self.name if self.name == "x" else PREFIX + self.name

    @property
    def type(self) -> torch.dtype:
        """The torch type of entries."""
        return DTYPES[self.dtype]

    def zeros(self, count: int) -> Tensor:
        """Entries of zeros."""
        return torch.zeros(count, *self.shape, dtype=self.type)


class DataSchema(BaseModel):
    """Inputs, classes and sites of a task."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["columns", "graph", "flows", "rehearsal"]
    """``columns``: samples are entries of columns. ``graph``: samples are nodes of a graph. ``flows``: samples are
    beginnings of action flows. ``rehearsal``: sites can only use their shares of the run file's data, and no data of
    their own."""
    reason: str = ""
    """Why sites cannot use data of their own, as a clause; empty if they can."""
    sites: tuple[str, ...]
    """The names of the training sites, by client number."""
    shape: tuple[int, ...] = ()
    """The shape of one input; of a graph's node, its number of features."""
    dtype: str = "float32"
    classes: int
    class_names: tuple[str, ...] = ()
    target_shape: tuple[int, ...] = ()
    target_dtype: str = "int64"
    features: tuple[str, ...] = ()
    """The feature columns of a table, in the model's order."""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    row_normalise: bool = False
    """Whether the features of a graph's nodes are divided by their row's sum."""
    matches_nodes: bool = False
    """Whether sites find the nodes that their graphs share, by salted hashes of their ids."""
    symbols: bool = False
    """Whether inputs are indices of symbols or words, from 0 to classes - 1."""
    plan: StoredPlan | None = None
    """What is done to the inputs of a user's data, unless they are columns of plain numbers."""
    target_mean: float | tuple[float, ...] | None = None
    target_std: float | tuple[float, ...] | None = None
    """Mean and standard deviation of the training targets, where these are numbers; of each, where they are several."""
    flows: dict[str, Any] | None = None
    """The dialect of action flows, and the words of their attributes."""
    inputs: tuple[InputColumn, ...] = ()
    """The input columns, where there are several; shape, dtype, mean, std and symbols are then those of each."""

    @model_serializer(mode="wrap")
    def _plain(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what earlier versions do not know, where it is not used: ``inputs``, the plan, the units..."""
        values: dict[str, Any] = handler(self)
        unused = [key for key in ("inputs", "reason", "matches_nodes") if not values[key]]
        unused += [key for key in ("plan", "target_mean", "target_std", "flows") if values[key] is None]
        return {key: value for key, value in values.items() if key not in unused}

    @property
    def input_plan(self) -> InputPlan | None:
        """What is done to the inputs of a user's data; None where inputs are arrays."""
        if self.plan is not None or not self.shape:
            return self.plan
        if self.features:
            return ColumnPlan.of_numbers(self.features)
        if self.kind == "columns" and len(self.shape) == 3 and self.shape[0] in (1, 3) and not self.symbols:
            return ImagePlan.of_shape(self.shape)  # a data set of images: others become as large as its own
        return None

    @property
    def target_kind(self) -> TargetKind:
        """What a target is: a class, a number, several labels, or a class per token."""
        return target_kind(torch.zeros(1, *self.target_shape, dtype=self.target_type))

    @property
    def units(self) -> Units | None:
        """Mean and standard deviation of numeric targets; None if targets are not numbers."""
        mean, std = self.target_mean, self.target_std
        if isinstance(mean, tuple) and isinstance(std, tuple):
            return mean, std
        return (mean, std) if isinstance(mean, float) and isinstance(std, float) else None

    @property
    def input_columns(self) -> tuple[InputColumn, ...]:
        """The input columns: one called ``x``, or several."""
        one = InputColumn(
            name="x", shape=self.shape, dtype=self.dtype, mean=self.mean, std=self.std, symbols=self.symbols
        )
        return self.inputs or (one,)

    @property
    def shapes(self) -> tuple[int, ...] | dict[str, tuple[int, ...]]:
        """The shape of one input, or of each input column by name."""
        return {column.name: column.shape for column in self.inputs} if self.inputs else self.shape

    @property
    def rehearsal_only(self) -> bool:
        """Whether sites cannot use data of their own."""
        return self.kind == "rehearsal"

    @property
    def input_type(self) -> torch.dtype:
        """The torch type of inputs."""
        return DTYPES[self.dtype]

    @property
    def target_type(self) -> torch.dtype:
        """The torch type of targets."""
        return DTYPES[self.target_dtype]

    @property
    def labels(self) -> tuple[str, ...]:
        """The name of each class; its number if classes have no names."""
        return self.class_names or tuple(str(number) for number in range(self.classes))


def dtype_name(column: Tensor) -> str:
    """The name of a column's type in a schema."""
    name = str(column.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise FedloomError(f"the task's columns are {name}, which cannot be deployed: use {', '.join(DTYPES)}.")
    return name
