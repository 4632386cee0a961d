"""A model of flows in one file, ready to recommend: what `fedloom flows export` writes and `recommend` reads.

A safetensors file: the model's tensors and, as JSON beside them, all that turns a flow into tokens and logits into
names of actions (schema, classes, embedding widths, dialect), whose model it is and what made it. Nothing of it is
trusted: the JSON is checked first, the tensors must be exactly those of such a model, and every number finite. No
pickle.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as packed
from torch import Tensor

import fedloom
from fedloom.core.errors import FedloomError
from fedloom.core.layout import Layout
from fedloom.models.fullgn import FullGN
from fedloom.tasks.flows.flow import brief
from fedloom.tasks.flows.formats.flow_json import dialect_from_json, dialect_to_json
from fedloom.tasks.flows.formats.json_values import JsonValue, parse_json
from fedloom.tasks.flows.learning.flow_schema import Schema
from fedloom.tasks.flows.rules import Dialect

FORMAT, VERSION = "fedloom-flow-model", 1
LARGEST = 256 << 20
"""The most bytes that a model's file may have; real ones have one or two million."""
MOST = 1_024
"""The most that a width or a number of blocks may be."""
_PARTS = ("node", "edge", "graph")
_DTYPE = "F32"


@dataclass(frozen=True)
class SavedModel:
    """A FullGN with its words: the schema of its inputs, the names of its classes, the dialect of its flows.

    ``client`` is whose personalised model it is (empty: everybody's), ``method`` and ``task`` say what trained it.
    """

    model: FullGN
    schema: Schema
    classes: tuple[str, ...]
    dialect: Dialect
    client: str = ""
    method: str = ""
    task: str = ""

    def __post_init__(self) -> None:
        for part in _PARTS:
            tables, words = _shapes(self.model, part), _words(self.schema, part)
            if [count for count, _ in tables] != words:
                raise FedloomError(f"a model whose {part} tables are {tables} does not fit a schema of {words} words.")
        if self.model.head[2].out_features != len(self.classes):
            raise FedloomError(
                f"a model of {self.model.head[2].out_features} classes cannot answer with {len(self.classes)} names."
            )

    def write(self, path: str | Path) -> None:
        """Write the model to one file."""
        path = Path(path)
        tensors = {name: tensor.detach().contiguous() for name, tensor in self.model.state_dict().items()}
        _check_finite(tensors, str(path))
        about = {
            "schema": json.loads(self.schema.to_json()),
            "classes": self.classes,
            "dialect": dialect_to_json(self.dialect),
            "embeddings": {part: [width for _, width in _shapes(self.model, part)] for part in _PARTS},
            "width": self.model.head[0].in_features,
            "blocks": self.model.blocks,
            "client": self.client,
            "method": self.method,
            "task": self.task,
            "fedloom": fedloom.__version__,
        }
        metadata = {"format": FORMAT, "version": str(VERSION), "about": json.dumps(about, ensure_ascii=False)}
        try:
            path.write_bytes(packed(tensors, metadata))
        except OSError as error:
            raise FedloomError(f"{path} cannot be written ({error.strerror}): name another place.") from None


def read_model(path: str | Path) -> SavedModel:
    """The model in a file that `SavedModel.write` wrote; anything else is refused in one sentence."""
    path = Path(path)
    if not path.is_file():
        raise FedloomError(f"there is no model file {path}.")
    if path.stat().st_size > LARGEST:
        raise FedloomError(f"{path} has more than {LARGEST >> 20} MB, which is too much for a model of flows.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise FedloomError(f"{path} holds tensors, but no model that fedloom flows export wrote.")
            if metadata.get("version") != str(VERSION):
                raise FedloomError(
                    f"{path} is a model in version '{brief(metadata.get('version', ''))}' of the format, and this "
                    f"Fedloom reads version {VERSION}: export it again."
                )
            return _read(file, parse_json(metadata.get("about", "").encode(), f"{path}, about"), path)
    except (SafetensorError, OSError) as error:
        raise FedloomError(f"{path} is no readable model ({brief(str(error), 100)}): export it again.") from None


def _read(file: Any, about: JsonValue, path: Path) -> SavedModel:
    schema_place = about.field("schema")
    try:
        schema = Schema.from_json(json.dumps(schema_place.value))
    except FedloomError as error:
        raise schema_place.error(str(error).removesuffix(".")) from None
    classes = tuple(place.text() for place in about.field("classes").items())
    if not classes or len(set(classes)) < len(classes):
        raise about.field("classes").error("a model has at least one class, and each of them once")
    node, edge, graph = (_tables(about.field("embeddings").field(part), schema, part) for part in _PARTS)
    width, blocks = (_number(about.field(name)) for name in ("width", "blocks"))
    pairs = (*node, *edge, *graph)
    least = sum(words * own for words, own in pairs) + width * (sum(own for _, own in pairs) + len(classes))
    if 4 * least > path.stat().st_size:  # before anything is allocated that the file does not hold
        raise FedloomError(f"{path} does not hold the tensors of its model: it is too short for them.")
    with torch.random.fork_rng(devices=[]):
        model = FullGN(node, edge, graph, len(classes), width, blocks)
    expected = {slot.name: list(slot.shape) for slot in Layout.of(model).slots}
    for name in sorted(expected.keys() ^ file.keys()):
        lacks = "lacks" if name in expected else "has one too many"
        raise FedloomError(f"{path} does not hold the tensors of its model: it {lacks}: '{brief(name)}'.")
    tensors: dict[str, Tensor] = {}
    for name, shape in expected.items():
        found = file.get_slice(name)
        if found.get_dtype() != _DTYPE or found.get_shape() != shape:
            raise FedloomError(
                f"{path}: the tensor '{name}' is {found.get_dtype()} {found.get_shape()}, and such a model has "
                f"{_DTYPE} {shape} there."
            )
        tensors[name] = file.get_tensor(name)
    _check_finite(tensors, str(path))
    model.load_state_dict(tensors)
    model.eval().requires_grad_(False)
    whose = (about.field(name).text() for name in ("client", "method", "task"))
    return SavedModel(model, schema, classes, dialect_from_json(about.field("dialect")), *whose)


def _shapes(model: FullGN, part: str) -> list[tuple[int, int]]:
    """(vocabulary, width) of each attribute."""
    return [tuple(table.weight.shape) for table in getattr(model, part).tables]


def _words(schema: Schema, part: str) -> list[int]:
    return [len(vocabulary) for vocabulary in getattr(schema, part).values()]


def _tables(place: JsonValue, schema: Schema, part: str) -> list[tuple[int, int]]:
    widths = [_number(item) for item in place.items()]
    words = _words(schema, part)
    if len(widths) != len(words):
        raise place.error(f"there are {len(widths)} widths for {len(words)} attributes")
    return list(zip(words, widths, strict=True))


def _number(place: JsonValue) -> int:
    if type(place.value) is not int or not 1 <= place.value <= MOST:
        raise place.error(f"this must be a whole number from 1 to {MOST:,}")
    return place.value


def _check_finite(tensors: dict[str, Tensor], where: str) -> None:
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise FedloomError(f"{where}: the tensor '{name}' has numbers that are not finite: this model diverged.")
