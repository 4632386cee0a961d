"""A task: what is learnt, as far as the core needs to know it.

The data are columns and lists of positions per client, the model is any ``torch.nn.Module``, the loss gives a value
and a count per sample (so that padding and sequences of unequal length are exact).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from torch import Tensor, nn

from fedloom.core.arguments import argument_error
from fedloom.core.baseline import Baseline
from fedloom.core.errors import FedloomError
from fedloom.core.html_table import html_table
from fedloom.core.inputs import (
    PREFIX,
    Augment,
    Inputs,
    Transform,
    input_names,
    map_inputs,
    named_inputs,
    prepare_inputs,
)
from fedloom.core.layout import Layout, in_single_precision
from fedloom.core.metric import Metric
from fedloom.core.model.architectures import Architectures
from fedloom.core.model.growing_head import GrowingHead, with_growing_head
from fedloom.core.objective import CrossEntropy, Objective, Standardised
from fedloom.core.targets import TARGET_KINDS, TargetKind, target_kind


class Lists(Protocol):
    """Positions per client, packed in one vector."""

    @property
    def order(self) -> Tensor: ...
    @property
    def starts(self) -> Tensor: ...
    @property
    def sizes(self) -> Tensor: ...
    def __getitem__(self, client: int) -> Tensor: ...


class FederationView(Protocol):
    """A federation as the core sees it."""

    @property
    def columns(self) -> Mapping[str, Tensor]: ...
    @property
    def train(self) -> Lists: ...
    @property
    def test(self) -> Lists: ...
    @property
    def valid(self) -> Lists: ...
    @property
    def global_test(self) -> Tensor: ...
    @property
    def communal(self) -> Tensor: ...
    @property
    def communal_labelled(self) -> bool: ...
    @property
    def server(self) -> Tensor: ...
    @property
    def server_labelled(self) -> bool: ...
    @property
    def server_classes(self) -> int: ...
    @property
    def server_is_foreign(self) -> bool: ...
    @property
    def seen(self) -> Tensor | None: ...
    @property
    def tasks(self) -> Sequence[tuple[int, ...]]: ...
    @property
    def points(self) -> Tensor: ...
    @property
    def withheld(self) -> tuple[int, tuple[int, ...]] | None: ...
    @property
    def clients(self) -> int: ...
    @property
    def classes(self) -> int: ...
    @property
    def class_names(self) -> Sequence[str]: ...
    @property
    def names(self) -> Sequence[str]: ...
    def name(self, client: int) -> str: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def later(self) -> Sequence[tuple[int, FederationView]]: ...
    @property
    def samples_are_independent(self) -> bool: ...
    @property
    def fingerprint_tensors(self) -> Sequence[Tensor]: ...
    def counts(self) -> np.ndarray: ...
    def with_communal_samples(self, positions: Tensor) -> FederationView: ...
    def with_validation_as_test(self) -> FederationView: ...
    def with_validation_part(self, share: float) -> FederationView: ...
    def as_one_client(self, without: Sequence[int] = ()) -> FederationView: ...
    def repeat(self, times: int) -> FederationView: ...
    def at(self, round_number: int) -> FederationView: ...


@dataclass(frozen=True, repr=False)
class Task:
    """Data, model and loss. ``fl.task`` and ``fl.task_of`` make one.

    Args:
        name: What the task is called in configs and reports.
        federation: Who holds which samples.
        model: The model; its weights are the initial row of every method. A module in another precision than float32
            is converted: rows are float32.
        objective: The loss and the score.
        prepare: Turns raw inputs into the model's (say, bytes into normalised floats). Of several input columns, a
            function prepares each of them, and a mapping those that it names.
        augment: Changes a client's training inputs at random, with the generator it is given.
        made_from: The settings that build this task again, as far as a config can hold them; they are written into a
            run's config.
        python_objects: The parts that no config can hold, and what they are: ``{"model": "MyNet"}``.
        fingerprint_tensors: Tensors that the data consist of beside the federation's columns; a resumed run must have
            the same.
        joined: Whether the model gets several input columns as one tensor, joined along axis 1 after ``prepare``;
            otherwise it gets a dict of tensors by column.
        metrics: What its models are measured by beside the objective's score; the first metric is the task's score.
        architectures: The models of the clients, where they differ; ``model`` is then the server's.
        architecture: The architecture of ``model``, in the task of clients of one architecture.
        server_model: The server's model, in the task of clients of one architecture.
        baselines: What its models are held against; the usual ones of its targets if there are none.
    """

    name: str
    federation: FederationView
    model: nn.Module
    objective: Objective = field(default_factory=CrossEntropy)
    prepare: Transform | Mapping[str, Transform] | None = None
    augment: Augment | None = None
    made_from: Mapping[str, object] = field(default_factory=dict)
    python_objects: Mapping[str, str] = field(default_factory=dict)
    fingerprint_tensors: Sequence[Tensor] = ()
    joined: bool = False
    metrics: tuple[Metric, ...] = ()
    architectures: Architectures | None = None
    architecture: int = 0
    server_model: nn.Module | None = None
    baselines: tuple[Baseline, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", in_single_precision(self.model, self.name))
        object.__setattr__(self, "objective", with_growing_head(self.objective, self.federation.seen))
        if self.augment is not None and "x" not in self.federation.columns:
            raise FedloomError(
                f"task {self.name}: augment changes one input column, but there are several: leave it off."
            )
        if isinstance(self.prepare, Mapping):
            names = [name.removeprefix(PREFIX) for name in input_names(self.federation.columns)]
            strange = [name for name in self.prepare if name not in names or name == "x"]
            if strange:
                raise FedloomError(
                    f"task {self.name}: prepare names the column '{strange[0]}', but the input columns are "
                    f"{', '.join(names)}: prepare one input with a function, and several by their names."
                )

    def __repr__(self) -> str:
        numbers = sum(parameter.numel() for parameter in self.model.parameters())
        model = f"{type(self.model).__name__} with {numbers:,} parameters"
        return f"<Task {self.name}: {self.federation!r}, model {model}, score {self.score_name}>"

    def _repr_html_(self) -> str:
        numbers = sum(parameter.numel() for parameter in self.model.parameters())
        rows = [
            ("data", repr(self.federation).strip("<>")),
            ("target", TARGET_KINDS[self.kind]),
            ("model", f"{type(self.model).__name__} with {numbers:,} parameters"),
            ("score", self.score_name),
        ]
        return html_table(
            ("part", "what it is"), rows, left=2, caption=f"Task {self.name}", below=self.federation.notes
        )

    @property
    def is_named(self) -> bool:
        """Whether a config can build this task again."""
        return bool(self.made_from) and not self.python_objects

    @cached_property
    def layout(self) -> Layout:
        """The layout of the model's row."""
        return Layout.of(self.model)

    @property
    def score_name(self) -> str:
        """The name of the task's score: its first metric, or the objective's score if it has none."""
        return self.metrics[0].name if self.metrics else self.objective.score

    @property
    def kind(self) -> TargetKind:
        """What a target is: a class, a number, several labels, or a class per token."""
        return target_kind(self.federation.columns["y"])

    @property
    def stacking_obstacle(self) -> str:
        """Why several clients' inputs cannot be one tensor, as the model says (``unequal``); empty if they can."""
        return str(getattr(self.model, "unequal", ""))

    @property
    def classifies(self) -> bool:
        """Whether every target is the number of one class (and neither a sequence nor a measured value)."""
        return self.kind == "classes"

    def predictions(self, outputs: Tensor) -> Tensor:
        """The model's outputs in the units of the targets, which metrics compare with them."""
        if isinstance(self.objective, GrowingHead):
            return self.objective.mask(outputs)
        return self.objective.in_units(outputs) if isinstance(self.objective, Standardised) else outputs

    def at(self, round_number: int) -> Task:
        """The task as it stands in a round: clients' data may drift, or new classes may have come."""
        federation = self.federation.at(round_number)
        return self if federation is self.federation else replace(self, federation=federation)

    def of_architecture(self, number: int) -> Task:
        """The task of the clients of one architecture: with their model.

        Args:
            number: The number of the architecture.
        """
        if self.architectures is None:
            return self
        server = self.server_model or self.model
        return replace(self, model=self.architectures.models[number], architecture=number, server_model=server)

    @cached_property
    def server_layout(self) -> Layout:
        """The layout of the server's model, which is that of all clients unless theirs differ."""
        return self.layout if self.server_model is None else Layout.of(self.server_model)

    @property
    def by_architecture(self) -> tuple[Task, ...]:
        """The tasks of the clients of each architecture; this task alone where all have its model."""
        count = 0 if self.architectures is None else len(self.architectures)
        return tuple(self.of_architecture(number) for number in range(count)) or (self,)

    def of_client(self, client: int) -> Task:
        """The task of a client: with its model."""
        return self if self.architectures is None else self.of_architecture(self.architectures.of(client))

    def initial_row(self) -> Tensor:
        """The row every method starts from."""
        return self.layout.row(self.model)

    @property
    def sample(self) -> Tensor:
        """The position of one training sample, of the first client that has any; a client may have none."""
        return self.federation.train.order[:1]

    def inputs(self, positions: Tensor) -> Inputs:
        """Prepared inputs at some positions (any shape of positions): a tensor, or a dict of tensors by column."""
        columns = self.federation.columns
        if "x" not in columns:
            return self._several_inputs(positions)
        picked = columns["x"].index_select(0, positions.reshape(-1))
        if callable(self.prepare):
            picked = self.prepare(picked)
        return picked.view(*positions.shape, *picked.shape[1:])

    def _several_inputs(self, positions: Tensor) -> Inputs:
        places = positions.reshape(-1)
        picked = {name: column.index_select(0, places) for name, column in self._named_inputs.items()}
        ready = prepare_inputs(picked, self.prepare, self.joined)
        return map_inputs(lambda rows: rows.view(*positions.shape, *rows.shape[1:]), ready)

    @property
    def has_named_inputs(self) -> bool:
        """Whether the model gets a dict of tensors by column and not one tensor."""
        return not self.joined and "x" not in self.federation.columns

    @cached_property
    def _named_inputs(self) -> dict[str, Tensor]:
        return named_inputs(self.federation.columns)

    def targets(self, positions: Tensor) -> Tensor:
        """Targets at some positions."""
        y = self.federation.columns["y"]
        return y.index_select(0, positions.reshape(-1)).view(*positions.shape, *y.shape[1:])


def check_task(value: object, what: str = "task") -> Task:
    """The task that was given; anything else is refused.

    Args:
        value: What was given.
        what: What an error calls it.
    """
    if not isinstance(value, Task):
        raise argument_error(what, value, "give a task: fl.task(name), or fl.task_of(fl.read(data)) of your own data")
    return value
