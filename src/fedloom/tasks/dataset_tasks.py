"""Tasks over the data sets of ``fedloom list data``: images, signals, characters and words.

Each has local work that is known to train its model. A new one is a line at the end, and a line in the table of
``registry/builtin.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from fedloom.baselines.last_token import LastToken
from fedloom.core.baseline import Baseline
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.data.datasets.dataset import dataset
from fedloom.data.datasets.load import default_clients, load
from fedloom.data.partition.partitioner import complete_partition, partitioner
from fedloom.models import build, default_for
from fedloom.tasks.architectures import build_architectures
from fedloom.tasks.builder import TaskDeployment, TaskSettings
from fedloom.tasks.data_settings import with_data_settings
from fedloom.tasks.deployment import ColumnDeployment
from fedloom.tasks.input_columns import fit_inputs
from fedloom.tasks.transforms import CropFlip, normalisation, tokens

DEPLOYMENT = ColumnDeployment()


@dataclass(frozen=True)
class DatasetBuilder:
    """Builds a task from a named data set; the model is the data's default unless the task names another."""

    data: str
    local: LocalWork
    model: str | None = None
    deployment: TaskDeployment = DEPLOYMENT
    baselines: tuple[Baseline, ...] = ()
    standalone_model: ClassVar[None] = None

    @property
    def default_model(self) -> str:
        """The model of the task when the settings name none."""
        entry = dataset(self.data)
        return self.model or default_for(entry.shape, entry.classes, entry.kind)

    def describe(self) -> str:
        """One line about the data set, the model, and whether the data are there."""
        entry = dataset(self.data)
        missing = "" if entry.is_present() else " (data missing: fedloom data get)"
        return f"{entry.description}; model {self.default_model}{missing}"

    def complete(self, settings: TaskSettings) -> TaskSettings:
        """The settings with the model, the partition and the number of clients written out."""
        entry = dataset(self.data)
        chosen = entry.partition if settings.partition is None else partitioner(settings.partition)
        return settings.complete(
            self.default_model,
            partition=complete_partition(chosen),
            clients=default_clients(entry, chosen) if settings.clients is None else settings.clients,
        )

    def build(self, settings: TaskSettings) -> Task:
        """Load the data, divide them among clients, and build the model."""
        settings.refuse(("options", "path", "group_column"), "it has no options and reads no file")
        settings, entry = self.complete(settings), dataset(self.data)
        if settings.augment and entry.kind != "image":
            raise FedloomError(
                f"augment=true needs images, but the samples of {settings.name} are not images: leave it out."
            )
        federation = load(
            self.data,
            clients=settings.clients,
            partition=settings.partition,
            seed=settings.seed,
            test_share=settings.test_share,
            valid_share=settings.valid_share,
        )
        federation = with_data_settings(federation, settings)
        model = settings.model or self.default_model
        if not isinstance(model, nn.Module):
            model = build(model, entry.shape, entry.classes, settings.seed, **settings.model_options)
        names = (federation.name(client) for client in range(federation.clients))
        architectures = build_architectures(settings.models, names, entry.shape, entry.classes, settings.seed)
        task = Task(
            name=settings.name,
            federation=federation,
            model=model,
            prepare=normalisation(entry.mean, entry.std) if entry.mean else tokens,
            augment=CropFlip() if settings.augment else None,
            made_from=settings.section(federation.clients),
            python_objects=settings.python_objects,
            architectures=architectures,
            baselines=self.baselines,
        )
        return fit_inputs(task)


DIGITS = DatasetBuilder("digits", LocalWork(lr=0.1, batch_size=32))
MNIST = DatasetBuilder("mnist", LocalWork(lr=0.05, batch_size=32))
MNIST_WRITERS = DatasetBuilder("mnist-writers", LocalWork(lr=0.05, batch_size=20))
FASHION_MNIST = DatasetBuilder("fashion-mnist", LocalWork(lr=0.05, batch_size=32))
CIFAR10 = DatasetBuilder("cifar10", LocalWork(lr=0.01, batch_size=64, weight_decay=4e-4))
CIFAR10_CNN = DatasetBuilder("cifar10", LocalWork(lr=0.01, batch_size=64), model="cnn")
CIFAR100 = DatasetBuilder("cifar100", LocalWork(lr=0.01, batch_size=64, weight_decay=4e-4))
GTSRB = DatasetBuilder("gtsrb", LocalWork(lr=0.02, batch_size=32))
HAR = DatasetBuilder("har", LocalWork(lr=0.02, batch_size=32))
HAR_COLUMNS = DatasetBuilder("har-columns", LocalWork(lr=0.02, batch_size=32))
SHAKESPEARE = DatasetBuilder(
    "shakespeare", LocalWork(lr=1.0, batch_size=100, weight_decay=1e-4), baselines=(LastToken(),)
)
STACKEXCHANGE = DatasetBuilder("stackexchange", LocalWork(lr=0.316, batch_size=16))
