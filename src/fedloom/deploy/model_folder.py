"""The folder of a saved model: written at once, and checked by its digests whenever it is read.

It is complete: the run's config, the schema of its inputs and classes, the weights by name, and ``model.json``, which
says whose model it is, which method trained it, and the digest of every file. It holds no sample. It is written to a
temporary folder and renamed, so that it is never incomplete. The model before it stays beside it (``.model.old``):
where a file is damaged, missing or another one, that model is used.
"""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field
from safetensors.torch import save as packed
from torch import Tensor

import fedloom
from fedloom.config.schema import RunConfig, Strict
from fedloom.core.errors import FedloomError
from fedloom.core.layout import Layout
from fedloom.core.task import Task
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.protocol.user_files import named_code
from fedloom.files.atomic_write import write_atomic
from fedloom.files.formats import SAVED_MODEL
from fedloom.files.json_text import parse_json
from fedloom.files.limits import SETTINGS, read_limited
from fedloom.registry.kinds import PARTS
from fedloom.registry.spec import split_spec
from fedloom.registry.validation import validate
from fedloom.runs.folder.manifest import Damaged, digest_of, read_checked
from fedloom.tasks.architectures import complete_models
from fedloom.tasks.builder import task_builder

log = logging.getLogger("fedloom")
MODEL, ABOUT = "model.safetensors", "model.json"


class About(Strict):
    """Whose model it is (empty: shared by all clients), the method that trained it, and after how many rounds."""

    client: str
    method: str
    round: int = Field(ge=0)
    format: int = SAVED_MODEL.version
    fedloom: str = fedloom.__version__
    files: dict[str, str] = Field(default_factory=dict)
    """The digest of every other file of the folder."""
    digest: str = ""
    """The digest of all this."""

    def to_json(self) -> bytes:
        """The file's content, with its own digest."""
        return self.model_copy(update={"digest": self._own_digest()}).model_dump_json(indent=1).encode()

    @property
    def is_checked(self) -> bool:
        """Whether there are digests to check; models of format 1, up to 0.5, have none."""
        return self.format > 1

    @property
    def is_whole(self) -> bool:
        """Whether this is what was written."""
        return self.digest == self._own_digest()

    def _own_digest(self) -> str:
        return digest_of(self.model_dump_json(exclude={"digest"}).encode())


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
    """Write a model to a folder; the one that was there before is kept beside it.

    Args:
        folder: Where the model goes.
        blueprint: The run that trained it.
        row: The model's parameters.
        method: The name of the method, with its prediction stages.
        round: The number of finished rounds.
        task: The client's own task: it says which model the client has, where models differ, and what its inputs and
            classes are called.
    """
    if not bool(row.isfinite().all()):
        raise FedloomError(f"the model of {client} has parameters that are not finite: it diverged and is not saved.")
    saved = _for_prediction(blueprint, 0 if task is None else task.architecture)
    tensors = Layout.of(saved.server_task({}).model).stacks(row)
    about = About(client=client, method=method, round=round)
    aside, older = _beside(folder, "part"), older_model(folder)
    try:
        shutil.rmtree(aside, ignore_errors=True)  # left by an interrupted save
        saved.save(aside, server=False, paths=False)
        write_atomic(aside / MODEL, packed(tensors, _metadata(blueprint, task, row, about)))
        files = {path.name: digest_of(path.read_bytes()) for path in sorted(aside.iterdir())}
        write_atomic(aside / ABOUT, about.model_copy(update={"files": files}).to_json())
        if folder.exists():
            shutil.rmtree(older, ignore_errors=True)
            os.replace(folder, older)
        os.replace(aside, folder)
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise FedloomError(f"the site's model cannot be saved ({error.strerror}).") from None


def _metadata(blueprint: Blueprint, task: Task | None, row: Tensor, about: About) -> dict[str, str] | None:
    """What must be known of the model's numbers to use them without the task; None if nothing."""
    kind = task_builder(blueprint.config.task.name).standalone_model
    return None if kind is None or task is None else kind.of_task(task, row, about.client, about.method).metadata


def _for_prediction(blueprint: Blueprint, architecture: int) -> Blueprint:
    """The blueprint with the task only, without the method, the training, the parts of the run or the user's metrics;
    of clients' models that differ it has one."""
    usual, config = RunConfig(), blueprint.config
    metrics = [metric for metric in config.task.metrics if not named_code({"task": {"metrics": [metric]}})]
    task = replace(config.task, metrics=metrics)
    if blueprint.architectures:
        initial = blueprint.architectures[architecture]
        blueprint = replace(blueprint, initial=initial.row, constants=initial.constants, architectures=())
        model, options = split_spec(list(complete_models(task.models).values())[architecture]["model"])
        task = replace(task, model=model, model_options=options, models={})
    trained = {kind.key: getattr(usual, kind.key) for kind in PARTS}
    trained |= {"method": {"name": "fedavg"}, "task": task, "local": usual.local, "server_optimizer": None}
    config = config.model_copy(update=trained)
    return replace(blueprint, config=config, communal=None, global_test=None, server_set=None)


def whole_model(folder: Path) -> tuple[Path, About]:
    """The folder of the last whole model, and what it says of itself: the one in a folder, or the one before it.

    Args:
        folder: The folder that ``save_model`` wrote.
    """
    damages: list[Damaged] = []
    for place in (folder, older_model(folder)):
        if not place.is_dir() and (damages or place == folder):  # a save was stopped between its two renames
            continue
        try:
            about = _check(place)
        except Damaged as damage:
            damages.append(damage)
            continue
        if damages:
            log.warning("%s: the model before it is used, after round %s of %s", damages[0], about.round, about.method)
        return place, about
    raise FedloomError(f"{damages[0]}: restore the folder from a copy, or train and save the model again.")


def older_model(folder: Path) -> Path:
    """The folder of the model that was in a folder before."""
    return _beside(folder, "old")


def _check(folder: Path) -> About:
    """What a model's folder says of itself; a folder that is not what was saved is damaged."""
    if not (folder / ABOUT).is_file():
        raise Damaged(f"{folder} has no {ABOUT}, so it is not a whole saved model")
    about = _about(folder / ABOUT)
    if not about.is_checked:
        return about
    for name, digest in about.files.items():
        if Path(name).name != name:
            raise Damaged(f"{folder / ABOUT} names a file outside of its folder")
        read_checked(folder / name, digest)
    known = {ABOUT, "__pycache__", *about.files}
    strange = sorted(path.name for path in folder.iterdir() if path.name not in known and path.name[0] != ".")
    if strange or MODEL not in about.files:
        raise Damaged(f"{folder / (strange[0] if strange else MODEL)} is not a file of this model")
    return about


def _about(path: Path) -> About:
    try:
        values: Any = parse_json(read_limited(path, SETTINGS))
    except ValueError as error:
        raise Damaged(f"{path} is not valid JSON ({error})") from None
    if isinstance(values, dict):
        values = SAVED_MODEL.upgrade(values, values.get("format"), path)
    about: About = validate(About, values, str(path))
    if about.is_checked and not about.is_whole:
        raise Damaged(f"{path} is not what was saved (its digest differs)")
    return about


def _beside(folder: Path, ending: str) -> Path:
    folder = folder.absolute()
    return folder.with_name(f".{folder.name}.{ending}")
