"""New samples for ``fedloom predict``: a table, an NPZ file or images under a model's schema, with or without labels.

Columns are matched by name, in any order. A table may have the label column, with empty cells; any other column that
the model does not know is an error, so that a misspelt one is noticed. Rows are counted from 1, without the header.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError, no_path
from fedloom.core.inputs import Inputs
from fedloom.data.folder import read_arrays
from fedloom.data.from_arrays import check_finite
from fedloom.data.input_plan import InputPlan
from fedloom.data.media.file_table import NAME, PATH, list_files
from fedloom.data.tables.table_columns import TableColumns
from fedloom.data.tables.tables import Table, as_texts, is_table, table_files
from fedloom.data.tables.targets_under_schema import table_targets_under_schema, targets_under_schema
from fedloom.data.tables.under_schema import conforming_inputs, fractions
from fedloom.deploy.saved_model import SavedModel

NAMED = 8
"""How many columns an error names."""


@dataclass(frozen=True)
class NewSamples:
    """Raw inputs, the name of each sample (its row or file), which samples have a target, and the targets of these."""

    inputs: Inputs
    names: list[int] | list[str]
    labelled: Tensor
    targets: Tensor
    label_source: str
    """Where the labels come from, as a verb phrase: "have a label in y"."""


def read_new_samples(paths: Sequence[Path], saved: SavedModel) -> NewSamples:
    """The samples of a file, of a folder of images, or of some image files.

    Args:
        paths: One table, one NPZ file, one folder, or image files.
        saved: The model that will predict them.
    """
    for path in paths:
        if not path.exists():
            raise no_path(path, "a .csv, .tsv, .npz or .parquet file, or images or sounds")
    first, several = paths[0], [column.name for column in saved.schema.inputs]
    if several and (len(paths) > 1 or first.suffix.lower() != ".npz"):
        raise FedloomError(f"this model needs the input columns {', '.join(several)}: give one .npz file with them.")
    plan = saved.schema.input_plan
    in_pieces = first.is_dir() and plan is not None and not plan.endings and bool(table_files(first))
    if len(paths) == 1 and (is_table(first) or in_pieces or (plan is not None and plan.reads_npz)):
        return _table(first, saved)
    if len(paths) == 1 and first.suffix.lower() == ".npz":
        return _arrays(first, saved)
    if plan is None or not plan.endings:
        also = "beside others " if len(paths) > 1 else ""
        raise FedloomError(
            f"{first} is not supported {also}here: this model needs inputs of shape {saved.schema.shape}, so give one "
            f"{'table or ' if plan is not None else ''}.npz file."
        )
    if len(paths) == 1 and first.is_dir():
        found = [path for path in list_files(first) if path.name.lower().endswith(plan.endings)]
        if not found:
            raise FedloomError(f"{first} has no {plan.what}s: give a folder with some ({', '.join(plan.endings)}).")
        return _files(found, [path.relative_to(first) for path in found], saved, plan)
    return _files(paths, paths, saved, plan)


def _table(path: Path, saved: SavedModel) -> NewSamples:
    plan = saved.schema.input_plan
    if plan is None:
        shape = ", ".join(["n", *map(str, saved.schema.shape)])
        raise FedloomError(
            f"{path.name} has named columns, but this model's inputs have no names: give an .npz with an array x "
            f"of shape ({shape})."
        )
    table = plan.read_table(path, TableColumns(saved.target, others=saved.others))
    _check_header(list(table.columns), plan, saved, path.name)
    x = fractions(plan.encode(table), saved.schema)
    labelled, targets = _table_targets(table, saved)
    source = f"have a label in column{'s' if len(saved.target.split(',')) > 1 else ''} '{saved.target}'"
    return _new_samples({"x": x}, labelled, targets, source, saved, path.name)


def _table_targets(table: Table, saved: SavedModel) -> tuple[np.ndarray, np.ndarray]:
    """Which rows have a target, and their targets."""
    names = [saved.target] if saved.target in table.columns else [name.strip() for name in saved.target.split(",")]
    labelled = np.full(len(table), all(name in table.columns for name in names))
    for name in names if labelled.any() else ():
        labelled &= np.array([bool(text) for text in as_texts(table.columns[name])])
    if not labelled.any():
        return labelled, np.zeros(0)
    if saved.empty_labels == "none":
        labelled = np.ones(len(table), dtype=bool)
        return labelled, table_targets_under_schema(table, saved.target, saved.schema)
    filler = "0" if len(names) > 1 or saved.schema.target_kind == "number" else saved.labels[0]
    filled = {name: np.where(labelled, as_texts(table.columns[name]), filler) for name in names}
    table = replace(table, columns={**table.columns, **filled})  # with all rows, an error names the right one
    return labelled, table_targets_under_schema(table, saved.target, saved.schema)[labelled]


def _check_header(header: Sequence[str], plan: InputPlan, saved: SavedModel, where: str) -> None:
    features = plan.columns_needed
    missing = [name for name in features if name not in header]
    if missing:
        raise FedloomError(
            f"{where} has no column '{missing[0]}', which this model needs: its features are {_some(features)}."
        )
    targets = {saved.target, *(name.strip() for name in saved.target.split(","))}
    extra = [name for name in header if name not in {*plan.columns_known, *targets, *saved.others}]
    if extra:
        raise FedloomError(
            f"{where} has the column '{extra[0]}', which this model does not know: remove it, or rename it to one of "
            f"{_some(features)}."
        )


def _arrays(path: Path, saved: SavedModel) -> NewSamples:
    columns = [column.name for column in saved.schema.input_columns]
    arrays = read_arrays(path, columns, ["y"])
    y, several = arrays.get("y"), {name: arrays[name] for name in columns}
    for name, x in several.items():
        _check_array(x, name, y, f"{path.name}, column {name}" if saved.schema.inputs else path.name)
    if len({len(x) for x in several.values()}) > 1:
        shown = ", ".join(f"{name} has {len(x)}" for name, x in several.items())
        raise FedloomError(f"{path.name}: the input columns differ in length ({shown}): give one entry per sample.")
    labelled = np.full(len(several[columns[0]]), y is not None)
    targets = np.zeros(0) if y is None else targets_under_schema(y, saved.schema, path.name)
    return _new_samples(several, labelled, targets, "have a label in y", saved, path.name)


def _check_array(x: np.ndarray, name: str, y: np.ndarray | None, where: str) -> None:
    if x.ndim < 2 or not len(x) or x.dtype.kind not in "fiub":
        raise FedloomError(f"{where}: {name} is {x.dtype} of shape {x.shape}: give numbers, one row per sample.")
    if y is not None and y.shape[:1] != x.shape[:1]:
        raise FedloomError(f"{where}: {len(x)} inputs and labels of shape {y.shape}: give one label each, or none.")
    check_finite(x, (), where)


def _files(paths: Sequence[Path], called: Sequence[Path], saved: SavedModel, plan: InputPlan) -> NewSamples:
    """Images or sounds; a folder with the name of a class is the label of its files."""
    names = [path.as_posix() for path in called]
    columns = {PATH: [str(path) for path in paths], NAME: names}
    table = Table({name: np.array(cells, dtype=object) for name, cells in columns.items()}, f"{len(paths):,} files")
    x = fractions(plan.encode(table), saved.schema)
    place = {
        label: number for number, label in enumerate(saved.labels if saved.schema.target_kind == "classes" else ())
    }
    folders = [path.parent.name for path in called]
    labelled = np.array([folder in place for folder in folders])
    numbers = np.array([place[folder] for folder in folders if folder in place], dtype=np.int64)
    source = "lie in a folder with the name of a class"
    return replace(_new_samples({"x": x}, labelled, numbers, source, saved, names[0]), names=names)


def _new_samples(
    arrays: Mapping[str, np.ndarray],
    labelled: np.ndarray,
    targets: np.ndarray,
    label_source: str,
    saved: SavedModel,
    where: str,
) -> NewSamples:
    """Samples of an array per input column."""
    columns = {}
    for column in saved.schema.input_columns:
        x = arrays[column.name]
        kind = np.float32 if x.dtype.kind in "fb" else np.uint8 if x.dtype == np.uint8 else np.int64
        raw = torch.from_numpy(np.ascontiguousarray(x, dtype=kind))
        columns[column.name] = conforming_inputs(raw, column, saved.schema, where)
    inputs = columns if saved.schema.inputs else columns["x"]
    names = list(range(1, len(labelled) + 1))
    return NewSamples(inputs, names, torch.from_numpy(labelled), torch.from_numpy(targets), label_source)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
