"""What a kind of task declares to the rest of the library: one record of settings, one protocol.

A modality (samples in columns, action flows, graphs) is a ``TaskBuilder``. It turns ``TaskSettings`` into a ``Task``,
fills in the defaults of its settings, and says how its tasks are deployed (``TaskDeployment``) and how its models are
saved where they need more than their numbers (``StandaloneModel``). To add a modality, write a builder and enter its
tasks in ``registry/builtin.py``; nothing else in the library asks what kind of task it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Protocol

from annotated_types import Ge
from torch import Tensor, nn

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.metric import Metric
from fedloom.core.objective import Loss
from fedloom.core.task import FederationView, Task
from fedloom.data.public_arrays import IN_MEMORY, PublicArrays
from fedloom.data.tables.schema import ClientSizes, DataSchema, SampleColumns
from fedloom.losses.make_objective import complete_loss
from fedloom.metrics.make_metrics import complete_metrics
from fedloom.registry.kinds import TASKS
from fedloom.registry.plain_values import without_none
from fedloom.registry.registry import is_importable
from fedloom.registry.setting import Setting
from fedloom.registry.spec import split_spec
from fedloom.registry.user_classes import resolve_user_file, user_class_name
from fedloom.tasks.architectures import complete_models
from fedloom.tasks.settings import TaskSection

TABLES = ("withhold", "drift", "communal", "server_set", "stream", "text", "sequences", "images", "sounds", "adapters")
"""The settings that are tables of settings."""
OF_COLUMNS = ("communal_per_class", "communal", "server_set", "label_share", "stream")
"""The settings that only tasks whose samples are entries of columns have."""


def with_absolute_path(table: Any) -> Any:
    """A table of settings whose path, if it has one, is absolute."""
    path = getattr(table, "path", None)
    return table if path is None else replace(table, path=str(Path(path).expanduser().resolve()))


@dataclass(frozen=True)
class TaskSettings(TaskSection):
    """The settings of one task, whose seed is known."""

    seed: Annotated[int, Ge(0), Setting("The seed of the partition and of the initial model.")] = 0

    def with_named_model(self) -> TaskSettings:
        """These settings with the model's name and its options apart (``net.py:Net:width=32``), and an absolute path.

        A class or a function that a config can name is named.
        """
        model = self.model
        if callable(model) and not isinstance(model, nn.Module) and is_importable(model):
            model = user_class_name(model)
        if not isinstance(model, str):
            return self
        name, options = split_spec(model)
        return replace(self, model=resolve_user_file(name), model_options={**self.model_options, **options})

    def complete(self, model: str, **others: Any) -> TaskSettings:
        """These settings with every default written out and an absolute path.

        Args:
            model: The model if these settings name none.
            **others: The complete values of settings whose defaults depend on the kind of task.
        """
        others["path"] = self.path and str(Path(self.path).resolve())
        others |= {key: with_absolute_path(getattr(self, key)) for key in TABLES}
        others["metrics"] = list(complete_metrics(self.metrics))
        others["loss"] = complete_loss(self.loss)
        others["models"] = models = complete_models(self.models)
        if models and self.model is None:  # the server has the model that is named first
            model, options = split_spec(next(iter(models.values()))["model"])
            others["model_options"] = {**options, **self.model_options}
        return replace(self, model=self.model or model, **others)

    def section(self, clients: int | None) -> dict[str, Any]:
        """The section ``[task]`` of a config that builds the task again, but for its ``python_objects``.

        It has the settings that differ from their defaults, and always the seed.

        Args:
            clients: How many clients the task has; None if its data say so.
        """
        left_out = ("name", "clients", "seed", *self.python_objects)
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in left_out}
        usual = TaskSettings(self.name)
        section = {key: value for key, value in values.items() if value != getattr(usual, key)}
        section |= {key: without_none(asdict(section[key])) for key in TABLES if key in section}
        counted = {} if clients is None else {"clients": clients}
        return {"name": self.name, **counted, **section, "seed": self.seed}

    @property
    def python_objects(self) -> dict[str, str]:
        """The settings that no config can hold because they are Python objects, and what they are."""
        found: dict[str, str] = {}
        for key in ("model", "partition", "loss"):
            value = getattr(self, key)
            if callable(value) or isinstance(value, Loss):
                found[key] = getattr(value, "__qualname__", type(value).__qualname__)
        for key in ("communal", "server_set"):
            if isinstance(getattr(self, key), PublicArrays):
                found[key] = IN_MEMORY
        own = [type(metric).__qualname__ for metric in self.metrics if isinstance(metric, Metric)]
        return found | ({"metrics": ", ".join(own)} if own else {})

    def refuse(self, names: Sequence[str], why: str) -> None:
        """Raise an error if one of these settings is given: the task does not use it.

        Args:
            names: Fields of this record.
            why: A main clause without full stop that says why the task has no such setting.
        """
        for name in names:
            if getattr(self, name) not in (None, False, 0, (), [], {}):
                raise FedloomError(f"task {self.name}: {why}; leave out {name}.")


@dataclass(frozen=True)
class SiteSource:
    """A site and its own data.

    ``client`` is the site's number; an evaluator's comes after those of the training sites, and all of its samples are
    for testing. ``target`` and ``ignore`` are columns of a table: the label, and columns that are left out.
    """

    name: str
    client: int
    path: Path
    target: str = "label"
    ignore: Sequence[str] = ()
    salt: str = ""
    """What ids of nodes are hashed with; the same at all sites, and unknown to the server."""

    def names(self, schema: DataSchema) -> tuple[str, ...]:
        """The names of all clients in this site's task."""
        return (*schema.sites, self.name) if self.evaluates(schema) else schema.sites

    def evaluates(self, schema: DataSchema) -> bool:
        """Whether this site is the evaluator."""
        return self.client == len(schema.sites)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Put the site's name in front of an error."""
        try:
            yield
        except FedloomError as error:
            raise FedloomError(f"site {self.name}: {error}") from error


class TaskDeployment(Protocol):
    """Makes the tasks of server and sites. Sites must not need each other's data."""

    def schema(self, task: Task, settings: TaskSettings, algorithm: Algorithm, sites: tuple[str, ...]) -> DataSchema:
        """The schema of a simulated task; of kind ``rehearsal`` if sites cannot use data of their own."""
        ...

    def global_test(self, federation: FederationView) -> SampleColumns | None:
        """The global test set of a simulated task, as tensors for the server; None if there is none."""
        ...

    def server_task(
        self,
        settings: TaskSettings,
        schema: DataSchema,
        sizes: Mapping[int, ClientSizes],
        communal: SampleColumns | None,
        global_test: SampleColumns | None,
        server_set: SampleColumns | None = None,
    ) -> Task:
        """The server's task: sizes of the clients' data, the global test set, the communal samples and its own."""
        ...

    def site_task(
        self, settings: TaskSettings, schema: DataSchema, site: SiteSource, communal: SampleColumns | None
    ) -> Task:
        """A site's task from its own files. For every other client number it holds one sample, which is never used."""
        ...

    def hide_from_sites(self, task: Task, algorithm: Algorithm) -> None:
        """Hide in a simulated task what sites do not know of each other, where a method lets them find it out."""
        ...

    def prediction_error(self, name: str) -> str | None:
        """Why ``fedloom predict`` cannot predict single samples of this task from a file; None if it can."""
        ...


class StandaloneModel(Protocol):
    """A trained model with all that is needed to use it: the words of its inputs, the names of its classes."""

    @staticmethod
    def of_task(task: Task, row: Tensor, client: str = "", method: str = "") -> StandaloneModel:
        """A task's model with the weights of a row; ``client`` has it and ``method`` trained it."""
        ...

    @property
    def metadata(self) -> dict[str, str]:
        """What a file of the model's tensors must say about them."""
        ...

    def write(self, path: str | Path) -> None:
        """Write the model to one file."""
        ...


class TaskBuilder(Protocol):
    """Builds the tasks of one modality. A named task is a builder together with its constructor arguments."""

    @property
    def local(self) -> LocalWork:
        """Local work that is known to train the task's default model."""
        ...

    def describe(self) -> str:
        """One line about the task, its model, and whether its data are there."""
        ...

    def complete(self, settings: TaskSettings) -> TaskSettings:
        """The settings with every default written out and with absolute paths."""
        ...

    def build(self, settings: TaskSettings) -> Task:
        """The task, with the settings that build it again (``made_from``) and what is missing (``python_objects``)."""
        ...

    @property
    def deployment(self) -> TaskDeployment:
        """How the task is deployed on sites that hold their own data."""
        ...

    @property
    def standalone_model(self) -> type[StandaloneModel] | None:
        """How a model is saved so that it can be used without its task; None if its numbers are all that is saved."""
        ...


def task_builder(name: str) -> TaskBuilder:
    """The builder of a named task; the name is read in any spelling."""
    found: TaskBuilder = TASKS.find(name)
    return found
