"""Saved models for ``fedloom predict``: of the folder that a site writes at the end of a run, and of run folders.

What is in a folder is not trusted: the tensors must be exactly those of such a model, and every number must be finite.
No pickle. ``model_folder.py`` writes the folder and checks its digests.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from fedloom.config.resolve import method_from_config, task_settings
from fedloom.config.schema import RunConfig
from fedloom.config.trusted_code import NO_CODE, TrustedCode
from fedloom.core.errors import FedloomError
from fedloom.core.inputs import Inputs, map_inputs, prepare_inputs
from fedloom.core.layout import Layout
from fedloom.core.model.model_output import chosen_output
from fedloom.core.task import Task
from fedloom.data.tables.schema import DataSchema, InputColumn
from fedloom.data.tables.table_columns import EmptyLabels
from fedloom.deploy.model_folder import ABOUT, MODEL, About, older_model, whole_model
from fedloom.deploy.participant_folder import SERVER_FILE, SITE_FILE
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.settings import load_site
from fedloom.registry.code_consent import trust_only
from fedloom.runs.folder.load_config import load_config
from fedloom.runs.results.client_model import client_model
from fedloom.tasks.builder import task_builder
from fedloom.tasks.deployment import input_transform
from fedloom.training.evaluation import EVALUATION_BATCH
from fedloom.training.threads import single_thread

SITES_MODEL = "model"
"""The folder of a site's model in the site's folder."""


@dataclass(frozen=True)
class SavedModel:
    """A model, with the schema that turns samples into its inputs and its outputs into names of classes."""

    model: nn.Module
    schema: DataSchema
    about: About
    target: str = "label"
    """The column of a table that may hold the labels."""
    others: tuple[str, ...] = ()
    """Columns that a table may have and that are not features."""
    joined: bool = False
    """Whether the model gets several input columns as one tensor."""
    empty_labels: EmptyLabels = "missing"
    """What an empty cell of the labels says."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The name of each class; its number if classes have no names."""
        return self.schema.labels

    def predict(self, inputs: Inputs) -> Tensor:
        """The probability of each class or label, or the number that is predicted, in its units.

        Args:
            inputs: Raw samples, with the schema's shape and type; the first axis is the sample. Several input columns
                are a dict of tensors by name.

        Returns:
            A samples × classes tensor whose rows sum to 1 (of sequences, samples × tokens × classes; of labels, their
            probabilities, each on its own; of numbers, samples × how many a sample has).
        """
        outputs, kind = self.outputs(inputs), self.schema.target_kind
        if kind == "number":
            return outputs
        return outputs.sigmoid() if kind == "labels" else outputs.softmax(-1)

    def outputs(self, inputs: Inputs) -> Tensor:
        """The model's outputs: logits of classes or labels, or numbers in their units.

        Args:
            inputs: Raw samples, as for ``predict``.
        """
        columns = {"x": inputs} if isinstance(inputs, Tensor) else inputs
        expected = [column.name for column in self.schema.input_columns]
        if set(columns) != set(expected):
            raise FedloomError(
                f"the samples have the input columns {', '.join(columns)}, but this model needs {', '.join(expected)}."
            )
        for column in self.schema.input_columns:
            _check_samples(columns[column.name], column)
        whole: Inputs = {name: columns[name] for name in expected} if self.schema.inputs else columns["x"]
        prepare, count = input_transform(self.schema), len(columns[expected[0]])
        units = None if self.schema.units is None else [torch.tensor(part).view(1, -1) for part in self.schema.units]
        tokens = self.schema.target_shape if self.schema.target_kind == "tokens" else ()
        batches = [torch.zeros(0, *tokens, self.schema.classes)]
        with torch.inference_mode(), single_thread():  # the same result on every machine
            for start in range(0, count, EVALUATION_BATCH):
                batch = map_inputs(itemgetter(slice(start, start + EVALUATION_BATCH)), whole)
                returned = self.model(prepare_inputs(batch, prepare, self.joined))
                made = chosen_output(self.model, returned)
                batches.append(made if units is None else made.view(len(made), -1) * units[1] + units[0])
        return torch.cat(batches)


def _check_samples(samples: Tensor, column: InputColumn) -> None:
    if tuple(samples.shape[1:]) != column.shape or samples.dtype != column.type:
        found = f"{str(samples.dtype).removeprefix('torch.')} of shape {tuple(samples.shape[1:])}"
        raise FedloomError(f"the samples are {found}, but this model needs {column.dtype} of shape {column.shape}.")


def load_model(folder: Path, trusted: TrustedCode = NO_CODE) -> SavedModel:
    """The model in a folder that ``save_model`` wrote.

    Args:
        trusted: The code of a user's own model, if it has one. What only the folder names is not run.
    """
    folder, about = whole_model(folder)
    with trust_only(trusted.places, str(folder)):
        blueprint = Blueprint.load(folder, trusted)
        _check_predictable(blueprint.config.task.name, blueprint.schema)
        task = blueprint.server_task({})
    _fill(task.model, folder / MODEL)
    return _ready(task, task.model, blueprint.schema, about, blueprint.config)


def model_of_run(folder: Path, client: str | None = None, trusted: TrustedCode = NO_CODE) -> SavedModel:
    """The model that a client of a simulated run predicts with.

    Args:
        folder: The run's folder.
        client: The client's name or number; None for the model that all clients share.
        trusted: The code of a user's own that may run. What only the folder names is not run.
    """
    with trust_only(trusted.places, str(folder)):
        config = load_config(folder, trusted=trusted)
        _check_predictable(config.task.name)
        found = client_model(folder, client, trusted=trusted)
        schema = task_builder(config.task.name).deployment.schema(
            found.task, task_settings(config), method_from_config(config), ()
        )
    _check_predictable(config.task.name, schema)
    model = deepcopy(found.task.model)
    found.task.layout.fill(model, found.row)
    return _ready(found.task, model, schema, About(client=found.client, method=found.method, round=found.round), config)


def model_at(folder: Path, client: str | None = None, trusted: TrustedCode = NO_CODE) -> SavedModel:
    """The model in a folder: a saved model's, a site's, or a run's.

    Args:
        client: Whose model of a run, by name or number.
        trusted: The code of a user's own that may run. What only the folder names is not run.
    """
    if not folder.is_dir():
        raise FedloomError(f"there is no folder {folder}: give the folder of a saved model, of a site, or of a run.")
    if any((place / SERVER_FILE).is_file() for place in (folder, folder.parent)):
        raise FedloomError(f"{folder} is the server's, but models are saved at the sites: give a site's folder.")
    if (folder / SITE_FILE).is_file():
        return _of_site(folder, client, trusted)
    if (folder / ABOUT).is_file() or (folder / MODEL).is_file():
        return _of_client(load_model(folder, trusted), folder, client)
    return model_of_run(folder, client, trusted)


def saved_model_file(folder: Path) -> Path | None:
    """The file of the tensors of a site's model, or of a saved model's, checked; None for a folder of something else.

    Args:
        folder: The folder of a site, or of a saved model.
    """
    if (folder / SITE_FILE).is_file():
        folder = _model_of_site(folder)
    return whole_model(folder)[0] / MODEL if (folder / ABOUT).is_file() or older_model(folder).is_dir() else None


def _model_of_site(folder: Path) -> Path:
    """The folder of a site's saved model."""
    place = folder / SITES_MODEL
    if place.exists() or older_model(place).exists():  # a save may end between its two renames
        return place
    raise FedloomError(
        f"site {load_site(folder).name} has no model yet: it saves one when the run has ended (fedloom deploy run at "
        "the server starts it)."
    )


def _of_site(folder: Path, client: str | None, trusted: TrustedCode) -> SavedModel:
    data = load_site(folder).data
    saved = load_model(_model_of_site(folder), trusted)
    return _of_client(replace(saved, target=data.target, others=tuple({*saved.others, *data.ignore})), folder, client)


def _of_client(saved: SavedModel, folder: Path, client: str | None) -> SavedModel:
    if client is not None and client != saved.about.client:
        whose = f"the model of '{saved.about.client}'" if saved.about.client else "a model that all clients share"
        raise FedloomError(f"{folder} is {whose} and not of '{client}': leave out the client, or give another folder.")
    return saved


def _ready(task: Task, model: nn.Module, schema: DataSchema, about: About, config: RunConfig) -> SavedModel:
    model.eval().requires_grad_(False)
    grouped = [] if config.task.group_column is None else [config.task.group_column]
    others = (config.task.client_column, *grouped, *config.task.ignore)
    return SavedModel(model, schema, about, config.task.target, others, task.joined, config.task.empty_labels)


def _check_predictable(task: str, schema: DataSchema | None = None) -> None:
    """Raise an error if a task's samples are not predicted one by one, or if their targets are texts to come."""
    error = task_builder(task).deployment.prediction_error(task)
    if error is not None:
        raise FedloomError(error)
    if schema is not None and schema.target_kind == "tokens" and schema.symbols:
        raise FedloomError(f"task {task} has no class per sample, so there is none to predict.")


def _fill(model: nn.Module, path: Path) -> None:
    """Fill a model with the tensors of a file, after a check of names, shapes, types and finiteness."""
    layout = Layout.of(model)
    expected = {slot.name: list(slot.shape) for slot in layout.slots}
    pieces: list[Tensor] = []
    try:
        with safe_open(path, framework="pt") as file:
            for name in sorted(expected.keys() ^ file.keys()):
                problem = "lacks" if name in expected else "has in addition"
                raise FedloomError(f"{path} does not hold the tensors of its model: it {problem} '{name[:60]}'.")
            for name, shape in expected.items():
                found = file.get_slice(name)
                if found.get_dtype() != "F32" or found.get_shape() != shape:
                    raise FedloomError(
                        f"{path}: the tensor '{name}' is {found.get_dtype()} {found.get_shape()}, and the "
                        f"model has F32 {shape}."
                    )
                pieces.append(file.get_tensor(name).reshape(-1))
    except (SafetensorError, OSError) as error:
        raise FedloomError(f"{path} is not a readable model ({str(error)[:100]}): save it again.") from None
    row = torch.cat(pieces)
    if not bool(row.isfinite().all()):
        raise FedloomError(f"{path} has parameters that are not finite: this model diverged.")
    layout.fill(model, row)
