"""Samples of no client: from a user's file or another data set, appended to the columns of a federation.

They have the federation's input shape and type, and are prepared as its own samples are. A sample whose inputs are
those of a test or validation sample, byte for byte, is left out: nobody is measured on what a server has seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.inputs import input_names
from fedloom.core.targets import IGNORED, target_kind
from fedloom.data.federate import Samples
from fedloom.data.federation import Federation
from fedloom.data.folder import read_arrays
from fedloom.data.from_arrays import samples_from_arrays
from fedloom.data.leak_groups import input_digest
from fedloom.data.remote_federation import join_columns
from fedloom.data.tables.schema import DataSchema, InputColumn, SampleColumns, StoredPlan, dtype_name
from fedloom.data.tables.table_columns import USUAL_COLUMNS, TableColumns
from fedloom.data.tables.tables import is_table, table_header
from fedloom.data.tables.under_schema import conforming_inputs, fractions, read_under_schema


def append_samples(
    federation: Federation, samples: SampleColumns, setting: str, title: str
) -> tuple[Federation, Tensor]:
    """The federation with further samples in its columns, and their positions; copies of test samples are left out.

    Args:
        samples: The further samples: its input columns, and ``y``.
        setting: The setting that asks for them, for errors.
        title: What notes call them.
    """
    names = input_names(federation.columns)
    tested = torch.cat([federation.test.order, federation.valid.order, federation.global_test])
    fresh = ~copies(samples, {name: federation.columns[name][tested] for name in names})
    if not bool(fresh.any()):
        raise FedloomError(f"{setting}: every sample of {title} is also a test or validation sample: give others.")
    kept = {name: samples[name][fresh] for name in (*names, "y")}
    columns, (positions,) = join_columns({name: federation.columns[name] for name in (*names, "y")}, [kept])
    group = federation.group
    if group is not None:  # each of them is a group of its own
        group = torch.cat([group, int(group.max()) + 1 + torch.arange(len(positions))])
    notes, known = federation.notes, int((~fresh).sum())
    if known:
        notes = (*notes, f"{setting}: {known:,} samples of {title} are test or validation samples too and left out.")
    return replace(federation, columns=columns, group=group, notes=notes), positions


def refuse_later_data(federation: Federation, setting: str) -> None:
    """Refuse data that change in later rounds: what is set aside now would be back, or gone, from then on.

    Args:
        federation: The data of the task.
        setting: The setting that sets samples aside, for the error.
    """
    if federation.later:
        raise FedloomError(f"{setting}: these data change in later rounds: set samples aside before drift or stream.")


def copies(samples: SampleColumns, others: SampleColumns) -> Tensor:
    """Which samples have the same inputs as one of some others, byte for byte.

    Args:
        others: The others, with the same input columns.
    """
    known = set(_input_digests(others))
    return torch.tensor([one in known for one in _input_digests(samples)], dtype=torch.bool)


def _input_digests(columns: SampleColumns) -> list[bytes]:
    """A hash of each sample's inputs."""
    inputs = [np.ascontiguousarray(columns[name].numpy()) for name in input_names(columns)]
    return [input_digest([column[sample] for column in inputs]) for sample in range(len(inputs[0]))]


def without_targets(federation: Federation, positions: Tensor, setting: str) -> Federation:
    """The federation with the targets of some samples left out.

    Args:
        positions: The samples.
        setting: The setting that asks for it, for errors.
    """
    y = federation.columns["y"].clone()
    if target_kind(y) not in ("classes", "tokens"):
        raise FedloomError(
            f"{setting}: samples without labels are for tasks with classes, and these targets are not classes: give "
            "their targets too."
        )
    y[positions] = IGNORED
    return replace(federation, columns={**federation.columns, "y": y})


def has_targets(path: Path, table: TableColumns = USUAL_COLUMNS) -> bool:
    """Whether a file of samples has targets: the array ``y``, or all columns of the target.

    Args:
        path: An NPZ file or a table; one that does not exist is refused when it is read.
        table: Which columns of a table are not inputs.
    """
    if not path.is_file():
        return True
    if is_table(path):
        return set(table.target.split(",")) <= set(table_header(path))
    return "y" in read_arrays(path, (), ("y",))


def have_targets(federation: Federation, positions: Tensor) -> bool:
    """Whether some samples have targets; those that were left out are all ``IGNORED``.

    Args:
        positions: The samples; without any, nothing is missing.
    """
    y = federation.columns["y"][positions]
    return not len(y) or target_kind(federation.columns["y"]) not in ("classes", "tokens") or bool((y != IGNORED).any())


def read_public_file(
    path: Path,
    federation: Federation,
    labelled: bool,
    table: TableColumns = USUAL_COLUMNS,
) -> SampleColumns:
    """The samples of a file, with the federation's input columns and classes; without labels, targets are ``IGNORED``.

    Args:
        path: An NPZ file with the task's input columns and ``y``, or data like the task's own: a table, a folder.
        federation: The data of the task.
        labelled: Whether the file's targets are read.
        table: Which columns of a table are not inputs.
    """
    if not path.exists():
        raise FedloomError(f"{path} does not exist: give an .npz file, or data like the task's own.")
    schema = sample_schema(federation)
    if labelled:
        return read_under_schema(path, schema, table).columns
    return _inputs_under_schema(path, schema, {*table.target.split(","), table.client, *table.ignore})


def _inputs_under_schema(path: Path, schema: DataSchema, others: set[str]) -> SampleColumns:
    """The inputs of a file under a schema, with targets that do not count."""
    if is_table(path) or path.is_dir():
        plan = schema.input_plan
        if plan is None:
            called = "a folder" if path.is_dir() else "a table"
            raise FedloomError(f"{path.name} is {called}, but the task's data are not: give an .npz file.")
        table = plan.read_table(path, TableColumns(others=sorted(others)))
        plan.check_columns([name for name in table.columns if name not in others], path.name)
        x: dict[str, np.ndarray] | np.ndarray = fractions(plan.encode(table), schema)
    else:
        arrays = read_arrays(path, [column.name for column in schema.input_columns], [])
        x = arrays if schema.inputs else arrays["x"]
    return unlabelled_samples(x, schema, path.name)


def unlabelled_samples(x: Any, schema: DataSchema, where: str) -> SampleColumns:
    """Inputs under a schema, with targets that do not count.

    Args:
        x: An array, or of several input columns a mapping of arrays by name.
        schema: What the samples must look like.
        where: What errors call them.
    """
    count = len(next(iter(x.values()))) if isinstance(x, Mapping) else len(x)
    plain: Samples = samples_from_arrays(x, np.zeros(count, dtype=np.int64), where=where)
    columns = {
        column.full_name: conforming_inputs(plain.columns[column.full_name], column, schema, where)
        for column in schema.input_columns
    }
    return columns | {"y": torch.full((count, *schema.target_shape), IGNORED, dtype=schema.target_type)}


def sample_schema(federation: Federation) -> DataSchema:
    """What samples must look like to be appended to a federation's columns.

    Args:
        federation: The data of the task.
    """
    y, plan = federation.columns["y"], federation.plan
    columns = tuple(
        InputColumn(
            name=name.removeprefix("x/"),
            shape=tuple(federation.columns[name].shape[1:]),
            dtype=dtype_name(federation.columns[name]),
        )
        for name in input_names(federation.columns)
    )
    one = columns[0].model_dump(include={"shape", "dtype"}) if "x" in federation.columns else {"inputs": columns}
    return DataSchema(
        kind="columns",
        sites=(),
        classes=federation.classes,
        class_names=tuple(federation.class_names),
        target_shape=tuple(y.shape[1:]),
        target_dtype=dtype_name(y),
        features=() if plan is None else tuple(plan.columns_needed),
        plan=None if plan is None or plan.is_plain else cast(StoredPlan, plan),
        **one,
    )
