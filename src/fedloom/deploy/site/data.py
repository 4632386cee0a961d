"""A site's own data, read under the task's schema and checked before anything is trained.

The order of columns, the numbers of classes and the shape and type of inputs are the schema's, not what the site's own
file would suggest. Whatever does not fit is said in one sentence that names the site, the file and the place in it.
Rows are counted from 1, the header not included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import key
from fedloom.core.task import IGNORED
from fedloom.data.federate import Samples, federate
from fedloom.data.federation import Federation, Ragged
from fedloom.data.folder import read_arrays
from fedloom.data.partition.iid import Iid
from fedloom.data.read import samples_from_arrays
from fedloom.data.readers.image_folder import read_image_folder
from fedloom.data.readers.labels import number_labels
from fedloom.data.readers.tables import TABLE_ENDINGS, read_table
from fedloom.deploy.protocol.schema import Schema
from fedloom.deploy.server.remote_federation import Columns, joined
from fedloom.deploy.settings import SITE_FILE, SiteData, SiteSettings
from fedloom.runs.config import RunConfig

LISTED = 12
"""So many classes are listed in a sentence, at most."""


def site_federation(
    config: RunConfig, schema: Schema, settings: SiteSettings, folder: Path, communal: Columns | None
) -> Federation:
    """A site's federation of column data: its own samples at its client number, and the communal ones."""
    with naming(settings):
        path = data_path(settings, folder)
        samples = site_samples(path, schema, settings.data, config.task.client_column)
        own = divided(samples, config, schema, settings)
    columns, (seen,) = joined(samples.columns, [communal])
    return replace(own, columns=columns, communal=seen, title=path.name)


@contextmanager
def naming(settings: SiteSettings) -> Iterator[None]:
    """What is wrong in here is wrong at this site, and the sentence says so."""
    try:
        yield
    except FedloomError as error:
        raise FedloomError(f"site {settings.name}: {error}") from error


def data_path(settings: SiteSettings, folder: Path) -> Path:
    """Where a site's data lie."""
    if not settings.data.path:
        raise FedloomError(
            f"its {SITE_FILE} names no data: set path in [data] to your file or folder, or rehearsal = true to try the "
            "deployment out."
        )
    path = folder / Path(settings.data.path).expanduser()
    if not path.exists():
        raise FedloomError(f"{path} does not exist: set path in [data] of its {SITE_FILE} to your file or folder.")
    return path


def site_samples(path: Path, schema: Schema, data: SiteData, client_column: str) -> Samples:
    """The samples of a file or folder, in the schema's form."""
    if path.is_dir():
        if len(schema.shape) != 3:
            raise FedloomError(
                f"{path.name} is a folder, and the task takes inputs of shape {schema.shape}, not images."
            )
        names = schema.class_names or [str(number) for number in range(schema.classes)]
        images, labels = read_image_folder(path, schema.shape, names)
        x = images / np.float32(255) if schema.input_type.is_floating_point else images
        return checked(x, labels, schema, path.name)
    match path.suffix.lower():
        case suffix if suffix in TABLE_ENDINGS:
            if len(schema.shape) != 1:
                raise FedloomError(f"{path.name} is a table, and the task takes inputs of shape {schema.shape}.")
            table = read_table(path, data.target, client_column, data.ignore, schema.features)
            return checked(table.x, table.y, schema, path.name, table.features)
        case ".npz":
            arrays = read_arrays(path, ["x", "y"], [])
            return checked(arrays["x"], arrays["y"], schema, path.name)
        case other:
            raise FedloomError(
                f"{path.name}: '{other}' is not read: give a .csv, .tsv, .npz or .parquet file, or a folder of images."
            )


def checked(x: Any, y: Any, schema: Schema, where: str, features: Sequence[str] = ()) -> Samples:
    """Arrays as samples in the schema's form, or the sentence that says which of them is not."""
    targets = np.asarray(y)
    if targets.ndim == 0 or targets.shape[1:] != schema.target_shape:
        asked = f"targets of shape {schema.target_shape}" if schema.target_shape else "one label per sample"
        raise FedloomError(f"{where}: y has shape {targets.shape}, and the task takes {asked}.")
    plain = samples_from_arrays(x, np.zeros(len(targets), dtype=np.int64), features=features, where=where)
    inputs = fitting(plain.columns["x"], schema, where)
    numbers = _sequences(targets, schema, where) if schema.target_shape else class_numbers(targets, schema, where)
    columns = {"x": inputs, "y": torch.from_numpy(numbers).to(schema.target_type)}
    return Samples(columns, schema.classes, schema.class_names)


def fitting(x: Tensor, schema: Schema, where: str) -> Tensor:
    """Inputs of the schema's shape and type; what would lose something, or mean something else, is refused."""
    given, wanted = tuple(x.shape[1:]), schema.input_type
    if given != schema.shape:
        raise FedloomError(f"{where}: an input has shape {given}, and the task takes {schema.shape}.")
    if wanted.is_floating_point != x.is_floating_point() and not (wanted.is_floating_point and x.dtype == torch.int64):
        called = str(x.dtype).removeprefix("torch.")
        raise FedloomError(f"{where}: the inputs are {called}, and the task takes {schema.dtype}: convert them.")
    if not wanted.is_floating_point:
        limits = torch.iinfo(wanted)
        low, high = (0, schema.classes - 1) if schema.symbols else (limits.min, limits.max)
        outside = ((x < low) | (x > high)).flatten(1).any(1).nonzero().flatten()
        if len(outside):
            raise FedloomError(f"{where}: an input of row {int(outside[0]) + 1} is not in {low} to {high}.")
    return x.to(wanted)


def class_numbers(labels: np.ndarray, schema: Schema, where: str) -> np.ndarray:
    """The schema's class numbers of labels: its class names, or numbers from 0. A site may lack classes."""
    if labels.dtype.kind not in "USO":
        return number_labels(labels, schema.classes, where)[0]
    words = [str(label).strip() for label in labels]
    number = {name: place for place, name in enumerate(schema.class_names)}
    if all(word in number for word in words):
        return np.array([number[word] for word in words], dtype=np.int64)
    if all(_reads_as_number(word) for word in words):
        return number_labels(np.array(words), schema.classes, where)[0]
    row, word = next(
        (row, word)
        for row, word in enumerate(words, 1)
        if not (word in number or (not number and _reads_as_number(word)))
    )
    raise FedloomError(
        f"{where}: the label '{word[:40]}' of row {row} is no class of the task: {known_classes(schema)}."
    )


def known_classes(schema: Schema) -> str:
    """What a site may call classes."""
    names = schema.class_names
    if not names:
        return f"its {schema.classes} classes are numbered 0 to {schema.classes - 1}"
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"its classes are {', '.join(names[:LISTED])}{more}"


def _reads_as_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _sequences(targets: np.ndarray, schema: Schema, where: str) -> np.ndarray:
    """Targets that are sequences of class numbers, -100 where nothing is asked."""
    if targets.dtype.kind not in "iu":
        raise FedloomError(f"{where}: y is {targets.dtype}, and the task takes whole numbers.")
    wrong = ((targets < 0) | (targets >= schema.classes)) & (targets != IGNORED)
    if wrong.any():
        row, *place = (int(index) for index in np.argwhere(wrong)[0])
        raise FedloomError(
            f"{where}: the target {targets[(row, *place)]} of row {row + 1} is no class of the task: "
            f"{known_classes(schema)}."
        )
    return targets.astype(np.int64)


def divided(samples: Samples, config: RunConfig, schema: Schema, settings: SiteSettings) -> Federation:
    """A site's samples in train, validation and test parts, by the run's shares; an evaluator's are all for testing."""
    evaluates = settings.client == len(schema.sites)
    own = federate(
        samples,
        Iid(),
        1,
        seed=key(config.seed if config.task.seed is None else config.task.seed, "site data", settings.client),
        test_share=config.task.test_share,
        valid_share=config.task.valid_share,
        global_share=0.0,
    )
    train, valid, test = own.train[0], own.valid[0], own.test[0]
    everything = torch.arange(len(samples.columns["y"]))
    if evaluates:
        train, valid, test = everything[:1], everything[:0], everything
    return replace(
        own,
        train=alone(train, schema, settings),
        valid=alone(valid, schema, settings),
        test=alone(test, schema, settings),
        global_test=everything if evaluates else everything[:0],
        names=names_at(schema, settings),
        class_names=schema.class_names,
    )


def alone(positions: Tensor, schema: Schema, settings: SiteSettings) -> Ragged:
    """A site's positions at its own client number; the others, who are never asked here, hold the first of them."""
    clients = len(names_at(schema, settings))
    return Ragged.of([positions if client == settings.client else positions[:1] for client in range(clients)])


def names_at(schema: Schema, settings: SiteSettings) -> tuple[str, ...]:
    """The names of the training sites, and behind them the evaluator's at its own site."""
    return (*schema.sites, settings.name) if settings.client == len(schema.sites) else schema.sites
