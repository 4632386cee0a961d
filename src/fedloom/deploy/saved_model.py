"""Saved models for ``fedloom predict``: the folder that a site writes at the end of a run, and models of run folders.

The folder of a saved model is complete: the run's config, the schema of its inputs and classes, the weights by name,
and ``model.json``, which says whose model it is and which method trained it. It holds no sample. It is written to a
temporary folder and renamed, so that it is never incomplete. Its content is not trusted: the tensors must be exactly
those of such a model, and every number must be finite. No pickle.
"""

from __future__ import annotations

import json
import os
import shutil
from copy import deepcopy
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as packed
from torch import Tensor, nn

import fedloom
from fedloom.core.code_consent import only_trusted
from fedloom.core.errors import FedloomError
from fedloom.core.inputs import Inputs, map_inputs, prepare_inputs
from fedloom.core.layout import Layout
from fedloom.core.model_output import chosen_output
from fedloom.core.task import Task
from fedloom.core.threads import single_thread
from fedloom.core.validation import validate
from fedloom.data.schema import DataSchema, InputColumn
from fedloom.deploy.participant_folder import SERVER_FILE, SITE_FILE
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.protocol.user_files import named_code
from fedloom.deploy.settings import load_site
from fedloom.runs.client_model import client_model
from fedloom.runs.config_schema import RunConfig, Strict
from fedloom.runs.folder.atomic_write import write_atomic
from fedloom.runs.named_parts import PARTS
from fedloom.runs.resolve_config import load_config, method_from_config, task_settings
from fedloom.runs.trusted_code import NO_CODE, TrustedCode
from fedloom.tasks.deployment import input_transform
from fedloom.tasks.registry import task_builder
from fedloom.training.evaluation import EVALUATION_BATCH

FORMAT = 1
MODEL, ABOUT = "model.safetensors", "model.json"
SITES_MODEL = "model"
"""The folder of a site's model in the site's folder."""


class About(Strict):
    """Whose model it is (empty: shared by all clients), the method that trained it, and after how many rounds."""

    client: str
    method: str
    round: int = Field(ge=0)
    format: int = FORMAT
    fedloom: str = fedloom.__version__


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
            probabilities, each on its own; of numbers, samples × 1).
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
        mean, std = self.schema.units or (0.0, 1.0)
        tokens = self.schema.target_shape if self.schema.target_kind == "tokens" else ()
        batches = [torch.zeros(0, *tokens, self.schema.classes)]
        with torch.inference_mode(), single_thread():  # the same result on every machine
            for start in range(0, count, EVALUATION_BATCH):
                batch = map_inputs(itemgetter(slice(start, start + EVALUATION_BATCH)), whole)
                returned = self.model(prepare_inputs(batch, prepare, self.joined))
                made = chosen_output(self.model, returned)
                batches.append(made if self.schema.units is None else made.view(-1, 1) * std + mean)
        return torch.cat(batches)


def _check_samples(samples: Tensor, column: InputColumn) -> None:
    if tuple(samples.shape[1:]) != column.shape or samples.dtype != column.type:
        found = f"{str(samples.dtype).removeprefix('torch.')} of shape {tuple(samples.shape[1:])}"
        raise FedloomError(f"the samples are {found}, but this model needs {column.dtype} of shape {column.shape}.")


def save_model(
    folder: Path,
    blueprint: Blueprint,
    row: Tensor,
    *,
    client: str,
    method: str,
    round: int,
    task: Task | None = None,
) -> None:
    """Write a model to a folder, replacing an older one.

    Args:
        folder: Where the model goes.
        blueprint: The run that trained it.
        row: The model's parameters.
        client: The client whose model it is.
        method: The name of the method, with its prediction stages.
        round: The number of finished rounds.
        task: The client's own task. A model of flows then names the client's own actions.
    """
    if not bool(row.isfinite().all()):
        raise FedloomError(f"the model of {client} has parameters that are not finite: it diverged and is not saved.")
    tensors = Layout.of(blueprint.server_task({}).model).stacks(row)
    about = About(client=client, method=method, round=round)
    aside, older = _beside(folder, "part"), _beside(folder, "old")
    try:
        shutil.rmtree(aside, ignore_errors=True)  # left by an interrupted save
        _for_prediction(blueprint).save(aside, server=False, paths=False)
        write_atomic(aside / MODEL, packed(tensors, _flow_metadata(blueprint, task, row, about)))
        write_atomic(aside / ABOUT, about.model_dump_json(indent=1).encode())
        if folder.exists():
            shutil.rmtree(older, ignore_errors=True)
            os.replace(folder, older)
        os.replace(aside, folder)
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise FedloomError(f"the site's model cannot be saved ({error.strerror}).") from None
    shutil.rmtree(older, ignore_errors=True)


def _flow_metadata(blueprint: Blueprint, task: Task | None, row: Tensor, about: About) -> dict[str, str] | None:
    """What ``fedloom flows recommend`` needs to know of a model of flows; None for other models."""
    kind = task_builder(blueprint.config.task.name).flow_model
    return None if kind is None or task is None else kind.of_task(task, row, about.client, about.method).metadata


def _for_prediction(blueprint: Blueprint) -> Blueprint:
    """The blueprint with the task only, without the method, the parts of the run or the user's metrics."""
    usual, config = RunConfig(), blueprint.config
    metrics = [metric for metric in config.task.metrics if not named_code({"task": {"metrics": [metric]}})]
    trained = {kind.key: getattr(usual, kind.key) for kind in PARTS}
    trained |= {"method": {"name": "fedavg"}, "task": config.task.model_copy(update={"metrics": metrics})}
    config = config.model_copy(update=trained)
    return replace(blueprint, config=config, communal=None, global_test=None)


def load_model(folder: Path, trusted: TrustedCode = NO_CODE) -> SavedModel:
    """The model in a folder that ``save_model`` wrote.

    Args:
        folder: The folder.
        trusted: The code of a user's own model, if it has one. What only the folder names is not run.
    """
    if not folder.is_dir() and _beside(folder, "old").is_dir():
        folder = _beside(folder, "old")  # a save was interrupted between its two renames
    for name in (ABOUT, MODEL):
        if not (folder / name).is_file():
            raise FedloomError(f"{folder} has no {name}: it is not a saved model, or it is incomplete.")
    about = _about(folder / ABOUT)
    with only_trusted(trusted.places, str(folder)):
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
    with only_trusted(trusted.places, str(folder)):
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
        folder: The folder.
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
    """The file of the tensors of a site's model, or of a saved model's; None for a folder of something else.

    Args:
        folder: The folder of a site, or of a saved model.
    """
    if (folder / SITE_FILE).is_file():
        return _model_of_site(folder) / MODEL
    return folder / MODEL if (folder / ABOUT).is_file() else None


def _model_of_site(folder: Path) -> Path:
    """The folder of a site's saved model."""
    places = (folder / SITES_MODEL, _beside(folder / SITES_MODEL, "old"))  # a save may end between its two renames
    for place in places:
        if place.exists():
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
    return SavedModel(model, schema, about, config.task.target, others, task.joined)


def _check_predictable(task: str, schema: DataSchema | None = None) -> None:
    """Raise an error if a task's samples are not predicted one by one, or if their targets are texts to come."""
    error = task_builder(task).deployment.prediction_error(task)
    if error is not None:
        raise FedloomError(error)
    if schema is not None and schema.target_kind == "tokens" and schema.symbols:
        raise FedloomError(f"task {task} has no class per sample, so there is none to predict.")


def _beside(folder: Path, ending: str) -> Path:
    folder = folder.absolute()
    return folder.with_name(f".{folder.name}.{ending}")


def _about(path: Path) -> About:
    try:
        values: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise FedloomError(f"{path} is not valid JSON ({error}): save the model again.") from None
    if isinstance(values, dict) and values.get("format") != FORMAT:
        raise FedloomError(
            f"{path} is of a model in format {values.get('format')!r}, but this Fedloom reads format {FORMAT}: use the "
            "version that saved it."
        )
    about: About = validate(About, values, str(path))
    return about


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
