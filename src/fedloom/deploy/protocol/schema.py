"""The form of a task without its data: what a site's own data must look like, and how many of them there are.

It is taken from the simulated task when a deployment is made. Class numbers, the order of columns and the
normalisation are the schema's at every site, whatever a site's own data would suggest.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.task import FederationView, Task
from fedloom.data.readers.tables import TABLE_ENDINGS, read_table
from fedloom.models.graph import Graphs
from fedloom.runs.config import RunConfig, Strict, TaskConfig
from fedloom.tasks.graphs.read import node_features
from fedloom.tasks.graphs.task import OWN as OWN_GRAPH
from fedloom.tasks.registry import TASKS
from fedloom.tasks.transforms import Normalise, tokens

Kind = Literal["columns", "graph", "rehearsal"]
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in (torch.float32, torch.uint8, torch.int16, torch.int64)}


class Sizes(NamedTuple):
    """How many samples a site has in each part, and how many points it counts as having in all."""

    train: int
    valid: int
    test: int
    points: int

    @staticmethod
    def of(federation: FederationView, client: int) -> Sizes:
        """The sizes of one client of a federation."""
        train, valid, test = (len(part[client]) for part in (federation.train, federation.valid, federation.test))
        return Sizes(train, valid, test, int(federation.points[client]))


ABSENT = Sizes(1, 0, 0, 1)
"""What a site counts as having that has not said."""


class Schema(Strict):
    """Inputs, classes and sites of a deployed task."""

    kind: Kind
    """``columns``: samples are entries of columns. ``graph``: nodes of a graph. ``rehearsal``: every site makes its
    share from the run file, and none can bring data of its own."""
    sites: tuple[str, ...]
    """The names of the training sites, by client number."""
    shape: tuple[int, ...]
    """The shape of one input; of a graph's node, its number of features."""
    dtype: str
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
    symbols: bool = False
    """Whether inputs are numbers of symbols or words, from 0 to classes - 1."""

    @property
    def input_type(self) -> torch.dtype:
        """The inputs' type as torch has it."""
        return DTYPES[self.dtype]

    @property
    def target_type(self) -> torch.dtype:
        """The targets' type as torch has it."""
        return DTYPES[self.target_dtype]

    @property
    def prepare(self) -> Callable[[Tensor], Tensor] | None:
        """What turns raw inputs into the model's."""
        return Normalise(self.mean, self.std) if self.mean else tokens if self.symbols else None


def schema_of(task: Task, algorithm: Algorithm, config: RunConfig, sites: tuple[str, ...]) -> Schema:
    """The form of a simulated task."""
    federation, prepare = task.federation, task.prepare
    normalise = prepare if isinstance(prepare, Normalise) else Normalise((), ())
    graphs: Graphs | None = getattr(federation, "graphs", None)
    x, y = federation.columns["x"], federation.columns["y"]
    kind: Kind = "columns"
    if graphs is not None:
        shared = any(len(anchors) for anchors in graphs.anchors)
        kind = "rehearsal" if algorithm.on_graphs and shared else "graph"
    elif config.task.name in TASKS and TASKS[config.task.name].modality != "columns":
        kind = "rehearsal"
    return Schema(
        kind=kind,
        sites=sites,
        shape=(graphs.features,) if graphs is not None else tuple(x.shape[1:]),
        dtype="float32" if graphs is not None else _name(x),
        classes=federation.classes,
        class_names=tuple(getattr(federation, "class_names", ())),
        target_shape=tuple(y.shape[1:]),
        target_dtype=_name(y),
        features=_features(config.task),
        row_normalise=graphs is not None and _divides(graphs, config.task),
        mean=normalise.mean,
        std=normalise.std,
        symbols=prepare is tokens,
    )


def _name(column: Tensor) -> str:
    name = str(column.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise FedloomError(f"the task's columns are {name}, which cannot be deployed: use {', '.join(DTYPES)}.")
    return name


def _features(chosen: TaskConfig) -> tuple[str, ...]:
    """The feature columns of a user's own table, or of the nodes of a graph in tables; nothing for other data."""
    path = Path(chosen.path or "")
    if chosen.name == "own" and path.suffix.lower() in TABLE_ENDINGS:
        return tuple(read_table(path, chosen.target, chosen.client_column, chosen.ignore).features)
    if chosen.name == OWN_GRAPH and chosen.path is not None and path.is_dir():
        return tuple(node_features(path))
    return ()


def _divides(graphs: Graphs, chosen: TaskConfig) -> bool:
    """Whether the nodes' features are divided by their row's sum: as asked, or else unless some are negative."""
    asked = chosen.options.get("normalise")
    return bool(asked) if asked is not None else not bool((graphs.original(graphs.whole).features.values < 0).any())
