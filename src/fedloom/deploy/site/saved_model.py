"""A personalised model in a folder of its own: what a site keeps when a run has ended, ready for ``fedloom predict``.

The folder stands alone: the run's config, the schema of its inputs and classes, the weights by name, and in
``model.json`` whose model it is and what made it. It holds no sample. It appears whole or not at all: it is written
aside and renamed. Nothing of it is trusted: the tensors must be exactly those of such a model, and every number
finite. No pickle.
"""

from __future__ import annotations

import json
import os
import shutil
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as packed
from torch import Tensor, nn

import fedloom
from fedloom.core.errors import FedloomError
from fedloom.core.layout import Layout
from fedloom.core.threads import single_thread
from fedloom.core.validation import read_toml, validate
from fedloom.deploy.protocol.blueprint import CONFIG, Blueprint
from fedloom.deploy.protocol.schema import Schema, schema_of
from fedloom.deploy.protocol.wire import shown
from fedloom.deploy.provision.user_files import named
from fedloom.deploy.settings import SERVER_FILE, SITE_FILE, load_site
from fedloom.runs.api import completed, load_config, method_of
from fedloom.runs.checkpoint import write_whole
from fedloom.runs.client_model import client_model
from fedloom.runs.config import RunConfig, Strict
from fedloom.tasks.registry import TASKS
from fedloom.training.evaluation import EVALUATION_BATCH

FORMAT = 1
MODEL, ABOUT = "model.safetensors", "model.json"
SITES_MODEL = "model"
"""Where a site's model is in the site's folder."""


class About(Strict):
    """Whose model it is (empty: everybody's), the method that made it, and after how many rounds."""

    client: str
    method: str
    round: int = Field(ge=0)
    format: int = FORMAT
    fedloom: str = fedloom.__version__


@dataclass(frozen=True)
class SavedModel:
    """A model with what turns samples into its inputs and its outputs into names of classes."""

    model: nn.Module
    schema: Schema
    about: About
    target: str = "label"
    """The column of a table that has the labels, where there are any."""
    others: tuple[str, ...] = ()
    """Columns that a table may have and that are no features."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The name of each class: its number where classes have no names."""
        return self.schema.class_names or tuple(str(number) for number in range(self.schema.classes))

    def predict(self, inputs: Tensor) -> Tensor:
        """The probability of each class for raw inputs (samples first): n×classes, each row summing to 1."""
        shape, kind = self.schema.shape, self.schema.input_type
        if tuple(inputs.shape[1:]) != shape or inputs.dtype != kind:
            found = f"{str(inputs.dtype).removeprefix('torch.')} of shape {tuple(inputs.shape[1:])}"
            raise FedloomError(f"the samples are {found}, and this model takes {self.schema.dtype} of shape {shape}.")
        prepare = self.schema.prepare or torch.nn.Identity()
        with torch.inference_mode(), single_thread():  # the same answer on every machine
            batches = [self.model(prepare(batch)).softmax(1) for batch in torch.split(inputs, EVALUATION_BATCH)]
        return torch.cat(batches) if len(inputs) else torch.zeros(0, self.schema.classes)


def save_model(folder: Path, blueprint: Blueprint, row: Tensor, *, client: str, method: str, round: int) -> None:
    """Write a row of the blueprint's model as a folder that stands alone, in the place of an older one."""
    if not bool(row.isfinite().all()):
        raise FedloomError(f"the model of {client} has numbers that are not finite: it diverged, and is not saved.")
    tensors = Layout.of(blueprint.server_task({}).model).stacks(row)
    about = About(client=client, method=method, round=round)
    aside, older = _beside(folder, "part"), _beside(folder, "old")
    try:
        shutil.rmtree(aside, ignore_errors=True)  # what a save that was stopped left
        _for_prediction(blueprint).save(aside, server=False, paths=False)
        write_whole(aside / MODEL, packed(tensors))
        write_whole(aside / ABOUT, about.model_dump_json(indent=1).encode())
        if folder.exists():
            shutil.rmtree(older, ignore_errors=True)
            os.replace(folder, older)
        os.replace(aside, folder)
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise FedloomError(f"the site's model cannot be saved ({error.strerror}): mend that first.") from None
    shutil.rmtree(older, ignore_errors=True)


def _for_prediction(blueprint: Blueprint) -> Blueprint:
    """What a model needs of a run: its task. How it was trained is no part of it, nor are classes of one's own."""
    usual = RunConfig()
    trained = {"method": {"name": "fedavg"}, "selection": usual.selection, "personal": []}
    config = blueprint.config.model_copy(update=trained)
    return replace(blueprint, config=config, communal=None, global_test=None)


def load_model(folder: Path) -> SavedModel:
    """The model in a folder that `save_model` wrote; anything else is refused in one sentence."""
    if not folder.is_dir() and _beside(folder, "old").is_dir():
        folder = _beside(folder, "old")  # a save was stopped between its two renames
    for name in (ABOUT, MODEL):
        if not (folder / name).is_file():
            raise FedloomError(f"{folder} has no {name}: it is no saved model, or not the whole of one.")
    about = _about(folder / ABOUT)
    for part in named(read_toml(folder / CONFIG)):
        if ":" in str(part.get("name", "")):  # to predict, nothing but the model is needed
            raise FedloomError(
                f"{folder / CONFIG} names code of its own ({shown(str(part['name']), 60)}): it is not run."
            )
    blueprint = Blueprint.load(folder)
    _predictable(blueprint.config.task.name, blueprint.schema)
    model = blueprint.server_task({}).model
    _fill(model, folder / MODEL)
    return _ready(model, blueprint.schema, about, blueprint.config)


def model_of_run(folder: Path, client: str | None = None) -> SavedModel:
    """The model that a client of a simulated run predicts with."""
    config = completed(load_config(folder))
    _predictable(config.task.name)
    found = client_model(folder, client)
    schema = schema_of(found.task, method_of(config), config, ())
    _predictable(config.task.name, schema)
    model = deepcopy(found.task.model)
    found.task.layout.fill(model, found.row)
    return _ready(model, schema, About(client=found.client, method=found.method, round=found.round), config)


def model_at(folder: Path, client: str | None = None) -> SavedModel:
    """The model of a folder: a saved model's, a site's, or a run's, of which ``client`` says whose model."""
    if not folder.is_dir():
        raise FedloomError(f"there is no folder {folder}: name a saved model's folder, a site's, or a run's.")
    if any((place / SERVER_FILE).is_file() for place in (folder, folder.parent)):
        raise FedloomError(f"{folder} is the server's, and models are saved at the sites: name a site's folder.")
    if (folder / SITE_FILE).is_file():
        return _of_site(folder, client)
    if (folder / ABOUT).is_file() or (folder / MODEL).is_file():
        return _of_client(load_model(folder), folder, client)
    return model_of_run(folder, client)


def _of_site(folder: Path, client: str | None) -> SavedModel:
    settings, place = load_site(folder), folder / SITES_MODEL
    if not place.exists() and not _beside(place, "old").exists():
        raise FedloomError(
            f"site {settings.name} has no model yet: it saves one when the run has ended (fedloom deploy run at the "
            "server starts it)."
        )
    saved, data = load_model(place), settings.data
    return _of_client(replace(saved, target=data.target, others=tuple({*saved.others, *data.ignore})), folder, client)


def _of_client(saved: SavedModel, folder: Path, client: str | None) -> SavedModel:
    if client is not None and client != saved.about.client:
        whose = f"the model of '{saved.about.client}'" if saved.about.client else "a model that all clients share"
        raise FedloomError(f"{folder} is {whose} and not of '{client}': leave out the client, or name another folder.")
    return saved


def _ready(model: nn.Module, schema: Schema, about: About, config: RunConfig) -> SavedModel:
    model.eval().requires_grad_(False)
    return SavedModel(model, schema, about, config.task.target, (config.task.client_column, *config.task.ignore))


def _predictable(task: str, schema: Schema | None = None) -> None:
    """Refuse a task whose samples are no entries of columns, or whose targets are no classes."""
    modality = TASKS[task].modality if task in TASKS else "columns"
    if modality == "flows":
        raise FedloomError(f"task {task} is about flows: use fedloom flows recommend to ask what comes next in one.")
    if modality == "graph" or (schema is not None and schema.kind != "columns"):
        raise FedloomError(
            f"task {task} is about nodes of graphs, which are not predicted one by one from a file: a node's class "
            "depends on its neighbours."
        )
    if schema is not None and (schema.target_shape or schema.target_type.is_floating_point):
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
            f"{path} is of a model in format {values.get('format')!r}, and this Fedloom reads format {FORMAT}: use the "
            "version that saved it."
        )
    about: About = validate(About, values, str(path))
    return about


def _fill(model: nn.Module, path: Path) -> None:
    """Put a file's tensors into a model whose own they must be: names, shapes, type, every number finite."""
    layout = Layout.of(model)
    expected = {slot.name: list(slot.shape) for slot in layout.slots}
    pieces: list[Tensor] = []
    try:
        with safe_open(path, framework="pt") as file:
            for name in sorted(expected.keys() ^ file.keys()):
                told = "lacks" if name in expected else "has one too many"
                raise FedloomError(f"{path} does not hold the tensors of its model: it {told}: '{name[:60]}'.")
            for name, shape in expected.items():
                found = file.get_slice(name)
                if found.get_dtype() != "F32" or found.get_shape() != shape:
                    raise FedloomError(
                        f"{path}: the tensor '{name}' is {found.get_dtype()} {found.get_shape()}, and such a model "
                        f"has F32 {shape} there."
                    )
                pieces.append(file.get_tensor(name).reshape(-1))
    except (SafetensorError, OSError) as error:
        raise FedloomError(f"{path} is no readable model ({str(error)[:100]}): save it again.") from None
    row = torch.cat(pieces)
    if not bool(row.isfinite().all()):
        raise FedloomError(f"{path} has numbers that are not finite: this model diverged.")
    layout.fill(model, row)
