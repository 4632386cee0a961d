"""Graphs from files: the named ones of the data folder, and a user's own NPZ or folder of two CSV files.

A named graph is an ``.npz`` of plain arrays (docs/graphs.md lists them), the same that a user's own may be. What
PyTorch Geometric downloads becomes one with ``save_graph(graph_of(data), path)``; nothing is ever unpickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedloom.core.errors import FedloomError, unknown
from fedloom.data.folder import data_folder, read_arrays, write_arrays
from fedloom.data.readers.csv import csv_rows
from fedloom.data.tables.tables import order_features
from fedloom.models.sparse import Sparse
from fedloom.tasks.graphs.labelled_graph import PARTS, LabelledGraph, labelled_graph, select_mask

NAMED = ("citeseer", "cora", "pubmed", "twitch")
_FILES = {"twitch": "twitch_countries.npz"}
_NO_FEATURES = ("id", "label", "split", "client")
_CSR = ("feat_indptr", "feat_indices", "feat_shape")
_SPLITS = {"train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test", "": ""}


def named_graph(name: str, folder: Path | None = None) -> LabelledGraph:
    """A graph of the data folder by its name."""
    if name not in NAMED:
        raise unknown("graph", name, NAMED)
    folder, file = folder or data_folder(), _FILES.get(name, f"{name}.npz")
    path = folder / file
    if not path.is_file():
        raise FedloomError(
            f"the graph {name} is missing (looked in {folder}): point FEDLOOM_DATA to a folder that has {file}, or "
            "save it from PyTorch Geometric with fedloom.tasks.graphs.save_graph; docs/graphs.md says how."
        )
    return _countries(path) if name == "twitch" else _npz(path, name, 0, None)


def read_graph(
    path: str | Path, *, mask: int = 0, normalise: bool | None = None, features: Sequence[str] = ()
) -> LabelledGraph:
    """A user's own graph: an NPZ, or a folder with ``nodes.csv`` and ``edges.csv``.

    Where ``features`` are named, those of a folder must be these and no others, and are put in this order.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        return _folder(path, normalise, features)
    if path.suffix != ".npz":
        raise FedloomError(f"{path.name}: a graph is an .npz file, or a folder with nodes.csv and edges.csv.")
    return _npz(path, path.name, mask, normalise)


def save_graph(source: LabelledGraph, path: str | Path) -> None:
    """Write a graph as the NPZ that ``read_graph`` reads.

    Args:
        source: The graph, with the classes of its nodes.
        path: The file to write.
    """
    features = source.graph.features
    arrays = {
        "feat_data": features.values,
        "feat_indices": features.columns.int(),
        "feat_indptr": features.starts.int(),
        "feat_shape": torch.tensor([len(features), features.width]),
        "labels": source.labels,
        "edge_index": torch.cat([source.graph.edges, source.graph.edges.flip(0)], 1).int(),
    }
    arrays |= {f"{'val' if part == 'valid' else part}_mask": mask for part, mask in (source.parts or {}).items()}
    plain = {name: tensor.numpy() for name, tensor in arrays.items()}
    if source.class_names:
        plain["class_names"] = np.array(source.class_names)
    if source.ids:
        plain["ids"] = np.array(source.ids)
    if source.owner is not None:
        plain["client"] = np.array(source.owners)[source.owner.numpy()]
    write_arrays(Path(path).expanduser(), plain)


def _npz(path: Path, name: str, mask: int, normalise: bool | None) -> LabelledGraph:
    arrays = read_arrays(path, ["edge_index"])
    labels = arrays["labels"] if "labels" in arrays else arrays.get("y")
    if labels is None:
        raise FedloomError(
            f"{name} has no array 'labels' or 'y' (it has {', '.join(arrays)}): give one label per node."
        )
    if "unlabelled_nodes" in arrays:
        labels = labels.copy()
        labels[arrays["unlabelled_nodes"]] = -1
    masks = {part: arrays.get(f"{'val' if part == 'valid' else part}_mask") for part in PARTS}
    found = {part: select_mask(value, mask, name) for part, value in masks.items() if value is not None}
    source = labelled_graph(
        arrays["edge_index"],
        _features(arrays, name),
        labels,
        masks=found or None,
        client=arrays.get("client"),
        normalise=normalise,
        class_names=[str(label) for label in arrays.get("class_names", ())],
        name=name,
    )
    return replace(source, ids=_ids(arrays["ids"], len(source), name)) if "ids" in arrays else source


def _ids(values: np.ndarray, nodes: int, name: str) -> tuple[str, ...]:
    ids = tuple(str(value) for value in values.reshape(-1).tolist())
    if len(ids) != nodes or len(set(ids)) < nodes:
        raise FedloomError(f"{name}: {nodes} nodes and {len(set(ids))} different ids: give each node its own.")
    return ids


def _features(arrays: dict[str, np.ndarray], name: str) -> Any:
    """Dense ``x``, or sparse rows; without ``feat_data`` every listed feature is 1."""
    if "x" in arrays:
        return arrays["x"]
    missing = [key for key in _CSR if key not in arrays]
    if missing:
        raise FedloomError(f"{name} has no array 'x' and no '{missing[0]}': give nodes × features, dense or as CSR.")
    starts, columns = arrays["feat_indptr"].astype(np.int64), arrays["feat_indices"].astype(np.int64)
    rows, width = (int(side) for side in arrays["feat_shape"])
    values = arrays.get("feat_data", np.ones(len(columns), dtype=np.float32)).astype(np.float32)
    sound = len(starts) == rows + 1 and starts[0] == 0 and starts[-1] == len(columns) == len(values)
    if not sound or (np.diff(starts) < 0).any():
        raise FedloomError(f"{name}: feat_indptr does not fit {rows} nodes and {len(columns)} entries: save it again.")
    if len(columns) and not 0 <= columns.min() <= columns.max() < width:
        raise FedloomError(f"{name}: feat_indices names feature {columns.max()} of {width}: save it again.")
    return Sparse(torch.from_numpy(starts), torch.from_numpy(columns), torch.from_numpy(values), width)


def _countries(path: Path) -> LabelledGraph:
    """Seven separate graphs with the same features: one per country, which is the client."""
    arrays = read_arrays(path, ["countries", "n_features"])
    edges, labels, owners, columns, sizes, before = [], [], [], [], [np.zeros(1, dtype=np.int64)], 0
    for country in arrays["countries"].tolist():
        edges.append(arrays[f"{country}_edge_index"].astype(np.int64) + before)
        labels.append(arrays[f"{country}_labels"].astype(np.int64))
        columns.append(arrays[f"{country}_feat_indices"].astype(np.int64))
        sizes.append(np.diff(arrays[f"{country}_feat_indptr"]).astype(np.int64))
        owners += [country] * len(labels[-1])
        before += len(labels[-1])
    starts, entries = np.cumsum(np.concatenate(sizes)), np.concatenate(columns)
    features = Sparse(
        torch.from_numpy(starts),
        torch.from_numpy(entries),
        torch.ones(len(entries)),
        int(arrays["n_features"].reshape(-1)[0]),
    )
    return labelled_graph(np.concatenate(edges, 1), features, np.concatenate(labels), client=owners, name="twitch")


def node_features(folder: Path) -> list[str]:
    """The feature columns of a folder's ``nodes.csv``."""
    return [name for name in _read_rows(folder / "nodes.csv", ["id", "label"])[0] if name not in _NO_FEATURES]


def _folder(folder: Path, normalise: bool | None, wanted: Sequence[str] = ()) -> LabelledGraph:
    header, rows = _read_rows(folder / "nodes.csv", ["id", "label"])
    ids = [row[header.index("id")] for row in rows]
    number = {key: place for place, key in enumerate(ids)}
    if len(number) < len(ids):
        twice = next(key for key in ids if ids.count(key) > 1)
        raise FedloomError(f"nodes.csv lists the node '{twice}' twice: give each node one row.")
    ends, links = _read_rows(folder / "edges.csv", ["source", "target"])
    edges = np.zeros((2, len(links)), dtype=np.int64)
    for place, link in enumerate(links):
        for side, column in enumerate(("source", "target")):
            key = link[ends.index(column)]
            if key not in number:
                raise FedloomError(
                    f"edges.csv, row {place + 1}: the {column} '{key}' is not in nodes.csv: add it or drop the edge."
                )
            edges[side, place] = number[key]
    features = order_features([name for name in header if name not in _NO_FEATURES], wanted, "nodes.csv")
    source = labelled_graph(
        edges,
        _feature_matrix(rows, header, features),
        np.array([row[header.index("label")] for row in rows]),
        masks=_masks(rows, header),
        client=np.array([row[header.index("client")] for row in rows]) if "client" in header else None,
        normalise=normalise,
        name=folder.name,
    )
    return replace(source, ids=tuple(ids))


def _read_rows(path: Path, needed: list[str]) -> tuple[list[str], list[list[str]]]:
    """The header of a CSV file that must have some columns, and its rows."""
    if not path.is_file():
        raise FedloomError(f"{path.parent} has no {path.name}: a graph's folder has nodes.csv and edges.csv.")
    chunks = csv_rows(path)
    header = list(next(chunks)[0])
    for name in needed:
        if name not in header:
            raise FedloomError(f"{path.name} has no column '{name}': its columns are {', '.join(header) or 'none'}.")
    return header, [[cell.strip() for cell in row] for rows in chunks for row in rows]


def _feature_matrix(rows: list[list[str]], header: list[str], features: list[str]) -> np.ndarray:
    if not features:
        raise FedloomError("nodes.csv has no feature column besides id, label, split and client: add the inputs.")
    places = {name: header.index(name) for name in features}
    try:
        return np.array([[float(row[place]) for place in places.values()] for row in rows], dtype=np.float32)
    except ValueError:
        raise _wrong_cell(rows, places) from None


def _wrong_cell(rows: list[list[str]], places: dict[str, int]) -> FedloomError:
    """The error for the first cell that is not a number."""
    for number, row in enumerate(rows, start=1):
        for name, place in places.items():
            try:
                float(row[place])
            except ValueError:
                problem = f"'{row[place][:40]}' is not a number" if row[place].strip() else "the cell is empty"
                return FedloomError(
                    f"nodes.csv: column '{name}', row {number}: {problem}: features must be numbers; fill it in, or "
                    "leave the column out."
                )
    raise AssertionError("every cell is a number")


def _masks(rows: list[list[str]], header: list[str]) -> dict[str, np.ndarray] | None:
    if "split" not in header:
        return None
    words = [row[header.index("split")].lower() for row in rows]
    for number, word in enumerate(words, start=1):
        if word not in _SPLITS:
            raise FedloomError(f"nodes.csv, row {number}: the split '{word}' must be train, valid, test or empty.")
    return {part: np.array([_SPLITS[word] == part for word in words]) for part in PARTS}
