"""A model of flows in one file, ready to recommend: what `fedloom flows export` and a site write, `recommend` reads.

It is a safetensors file (no pickle): the model's tensors and, as JSON, everything that turns a flow into tokens and
logits into names of actions (schema, classes, embedding widths, dialect), the client, and the method and task that
trained it, and a digest of all this. Nothing in it is trusted: the JSON is checked first, the tensors must be exactly
those of such a model and of the digest, and every number must be finite.
"""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor

import fedloom
from fedloom.core.errors import FedloomError, unwritable
from fedloom.core.layout import Layout
from fedloom.core.task import Task
from fedloom.models.fullgn import FullGN
from fedloom.tasks.flows.flow import brief
from fedloom.tasks.flows.formats.flow_json import dialect_from_json, dialect_to_json
from fedloom.tasks.flows.formats.json_values import JsonValue, parse_json
from fedloom.tasks.flows.learning.data_points import FlowInputs
from fedloom.tasks.flows.learning.flow_schema import FlowSchema
from fedloom.tasks.flows.rules import Dialect

FORMAT, VERSION = "fedloom-flow-model", 2
"""The format and its version. Files of version 1 (up to 0.5) have no digest: they are read unchecked."""
LARGEST = 256 << 20
"""The most bytes that a model's file may have; real ones have one or two million."""
MOST = 1_024
"""The most that a width or a number of blocks may be."""
_PARTS = ("node", "edge", "graph")
_DTYPE = "F32"


@dataclass(frozen=True)
class SavedFlowModel:
    """A FullGN with the schema of its inputs, the names of its classes and the dialect of its flows.

    ``client`` is the client whose personalised model it is (empty: all clients share it); ``method`` and ``task``
    trained it.
    """

    model: FullGN
    schema: FlowSchema
    classes: tuple[str, ...]
    dialect: Dialect
    client: str = ""
    method: str = ""
    task: str = ""

    def __post_init__(self) -> None:
        for part in _PARTS:
            tables, words = _table_shapes(self.model, part), _vocabulary_sizes(self.schema, part)
            if [count for count, _ in tables] != words:
                raise FedloomError(
                    f"the {part} tables of the model are {tables}, which does not fit a schema of {words} words."
                )
        if self.model.head[2].out_features != len(self.classes):
            raise FedloomError(
                f"the model has {self.model.head[2].out_features} classes, but there are {len(self.classes)} names."
            )

    @staticmethod
    def of_task(task: Task, row: Tensor, client: str = "", method: str = "") -> SavedFlowModel:
        """A flow task's model with the weights of a row."""
        inputs, classes = task.prepare, tuple(getattr(task.federation, "class_names", ()))
        if not isinstance(inputs, FlowInputs) or inputs.dialect is None or not isinstance(task.model, FullGN):
            raise FedloomError(f"task {task.name} has no FullGN model of flows, so it cannot recommend actions.")
        model = deepcopy(task.model).eval().requires_grad_(False)
        task.layout.fill(model, row)
        return SavedFlowModel(model, inputs.schema, classes, inputs.dialect, client, method, task.name)

    @property
    def metadata(self) -> dict[str, str]:
        """What a file of the model's tensors must say about them, so that `read_flow_model` can read it."""
        about = {
            "schema": self.schema.to_plain(),
            "classes": self.classes,
            "dialect": dialect_to_json(self.dialect),
            "embeddings": {part: [width for _, width in _table_shapes(self.model, part)] for part in _PARTS},
            "width": self.model.head[0].in_features,
            "blocks": self.model.blocks,
            "client": self.client,
            "method": self.method,
            "task": self.task,
            "fedloom": fedloom.__version__,
        }
        text = json.dumps(about, ensure_ascii=False)
        return {
            "format": FORMAT, "version": str(VERSION), "about": text, "digest": _digest(text, self.model.state_dict()),
        }  # fmt: skip

    def write(self, path: str | Path) -> None:
        """Write the model to one file."""
        path = Path(path)
        tensors = {name: tensor.detach().contiguous() for name, tensor in self.model.state_dict().items()}
        _check_finite(tensors, str(path))
        try:
            path.write_bytes(to_safetensors(tensors, self.metadata))
        except OSError as error:
            raise unwritable(path, error, "choose another path") from None


def read_flow_model(path: str | Path) -> SavedFlowModel:
    """Read a model from a file that `SavedFlowModel.write` wrote."""
    path = Path(path)
    if not path.is_file():
        raise FedloomError(f"there is no model file {path}.")
    if path.stat().st_size > LARGEST:
        raise FedloomError(f"{path} has more than {LARGEST >> 20} MB, which is too much for a model of flows.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise FedloomError(f"{path} holds tensors, but not a model that fedloom flows export wrote.")
            if metadata.get("version") not in ("1", str(VERSION)):
                raise FedloomError(
                    f"{path} has version '{brief(metadata.get('version', ''))}' of the format; this Fedloom reads "
                    f"version {VERSION}: export the model again."
                )
            text = metadata.get("about", "")
            saved = _read(file, parse_json(text.encode(), f"{path}, about"), path)
    except (SafetensorError, OSError) as error:
        raise FedloomError(f"{path} is not a readable model ({brief(str(error), 100)}): export it again.") from None
    if metadata["version"] != "1" and metadata.get("digest") != _digest(text, saved.model.state_dict()):
        raise FedloomError(
            f"{path} is not what was written (its digest differs): it was damaged or changed; copy or export it again."
        )
    return saved


def _read(file: Any, about: JsonValue, path: Path) -> SavedFlowModel:
    schema_value = about.field("schema")
    try:
        schema = FlowSchema.from_plain(schema_value.value)
    except FedloomError as error:
        raise schema_value.error(str(error).removesuffix(".")) from None
    classes = tuple(value.text() for value in about.field("classes").items())
    if not classes or len(set(classes)) < len(classes):
        raise about.field("classes").error("there must be at least one class, and none twice")
    node, edge, graph = (_tables_from_json(about.field("embeddings").field(part), schema, part) for part in _PARTS)
    width, blocks = (_number(about.field(name)) for name in ("width", "blocks"))
    pairs = (*node, *edge, *graph)
    least = sum(words * own for words, own in pairs) + width * (sum(own for _, own in pairs) + len(classes))
    if 4 * least > path.stat().st_size:  # before anything is allocated
        raise FedloomError(f"{path} does not hold the tensors of its model: it is too short.")
    with torch.random.fork_rng(devices=[]):
        model = FullGN(node, edge, graph, len(classes), width, blocks)
    expected = {slot.name: list(slot.shape) for slot in Layout.of(model).slots}
    for name in sorted(expected.keys() ^ file.keys()):
        fault = "is missing" if name in expected else "does not belong to the model"
        raise FedloomError(f"{path} does not hold the tensors of its model: '{brief(name)}' {fault}.")
    tensors: dict[str, Tensor] = {}
    for name, shape in expected.items():
        found = file.get_slice(name)
        if found.get_dtype() != _DTYPE or found.get_shape() != shape:
            raise FedloomError(
                f"{path}: the tensor '{name}' is {found.get_dtype()} {found.get_shape()}; it must be {_DTYPE} {shape}."
            )
        tensors[name] = file.get_tensor(name)
    _check_finite(tensors, str(path))
    model.load_state_dict(tensors)
    model.eval().requires_grad_(False)
    names = (about.field(name).text() for name in ("client", "method", "task"))
    return SavedFlowModel(model, schema, classes, dialect_from_json(about.field("dialect")), *names)


def _table_shapes(model: FullGN, part: str) -> list[tuple[int, int]]:
    """(vocabulary, width) of each attribute."""
    return [tuple(table.weight.shape) for table in getattr(model, part).tables]


def _vocabulary_sizes(schema: FlowSchema, part: str) -> list[int]:
    return [len(vocabulary) for vocabulary in getattr(schema, part).values()]


def _tables_from_json(value: JsonValue, schema: FlowSchema, part: str) -> list[tuple[int, int]]:
    widths = [_number(item) for item in value.items()]
    words = _vocabulary_sizes(schema, part)
    if len(widths) != len(words):
        raise value.error(f"there are {len(widths)} widths for {len(words)} attributes")
    return list(zip(words, widths, strict=True))


def _number(value: JsonValue) -> int:
    if type(value.value) is not int or not 1 <= value.value <= MOST:
        raise value.error(f"expected a whole number from 1 to {MOST:,}")
    return value.value


def _digest(about: str, tensors: dict[str, Tensor]) -> str:
    """The SHA-256 of what a file says of its model, and of every tensor by its name."""
    found = hashlib.sha256(about.encode(errors="surrogatepass"))
    for name in sorted(tensors):
        found.update(f"\n{name}\n".encode())
        found.update(tensors[name].detach().contiguous().numpy().tobytes())
    return found.hexdigest()


def _check_finite(tensors: dict[str, Tensor], where: str) -> None:
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise FedloomError(f"{where}: the tensor '{name}' has values that are not finite: the model diverged.")
