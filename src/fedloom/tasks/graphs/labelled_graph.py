"""A whole graph whose nodes have features, classes and parts: what is divided among clients.

Every reader ends in ``labelled_graph``, which checks the arrays; an error names the node or the edge. Nodes and edges
are counted from 0, as in ``edge_index``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import numpy_generator
from fedloom.core.settings import Count, check_value
from fedloom.data.tables.labels import number_labels
from fedloom.models.graph import Graph, unique_edges
from fedloom.models.sparse import Sparse

PARTS = ("train", "valid", "test")


@dataclass(frozen=True, eq=False)
class LabelledGraph:
    """A graph, the class of each node (-1: unknown) and its part; ``owner`` is the natural client of each node."""

    name: str
    graph: Graph
    labels: Tensor
    classes: int
    parts: Mapping[str, Tensor] | None = None
    """A mask over nodes for each of train, valid and test; None where they are still to be drawn."""
    class_names: tuple[str, ...] = ()
    owner: Tensor | None = None
    owners: tuple[str, ...] = ()
    loops: int = 0
    """Self-loops that were left out."""
    repeated: int = 0
    """Edges that were listed again in the same direction, and left out."""
    ids: tuple[str, ...] = ()
    """The nodes' own ids, by which several clients may know them; empty where a file has none."""

    def __len__(self) -> int:
        return len(self.graph)


def labelled_graph(
    edges: Any,
    features: Any,
    labels: Any,
    *,
    masks: Mapping[str, Any] | None = None,
    client: Any = None,
    normalise: bool | None = None,
    class_names: Sequence[str] = (),
    name: str = "own graph",
) -> LabelledGraph:
    """Check arrays and make a graph of them.

    Args:
        edges: 2×m numbers of nodes; an edge may be listed in one direction or both.
        features: A dense matrix or a ``Sparse``, with a row per node.
        labels: Whole numbers (-1: unknown) or names (empty: unknown), one per node.
        masks: A mask of nodes for ``train`` and ``test``, and optionally for ``valid``.
        client: The client of each node, where the graph is divided already.
        normalise: Whether features are divided by their row's sum; None does so unless some are negative.
        class_names: The names of the classes.
        name: What errors and reports call the graph.
    """
    inputs = features if isinstance(features, Sparse) else _sparse(np.asarray(features), name)
    nodes = len(inputs)
    _check_finite(inputs, name)
    pairs = _check_edges(np.asarray(edges), nodes, name)
    loops = int((pairs[0] == pairs[1]).sum())
    listed = len(torch.unique(pairs[0] * nodes + pairs[1])) if pairs.numel() else 0
    looped = len(torch.unique(pairs[0][pairs[0] == pairs[1]]))
    repeated = pairs.shape[1] - loops - (listed - looped)
    classified, names, classes = _classes(np.asarray(labels), nodes, class_names, name)
    if normalise is None:
        normalise = not bool((inputs.values < 0).any())
    graph = Graph(torch.arange(nodes), unique_edges(pairs, nodes), inputs.normalise_rows() if normalise else inputs)
    parts = None if masks is None else _parts(masks, classified, name)
    owner, owners = _owners(client, nodes, name)
    return LabelledGraph(name, graph, classified, classes, parts, names, owner, owners, loops, repeated)


def with_parts(
    source: LabelledGraph, test_share: float, valid_share: float, per_class: int | None = None, seed: int = 0
) -> LabelledGraph:
    """A graph whose labelled nodes are put at random, class by class, into a test, a validation and a training part.

    Args:
        source: The graph, with the classes of its nodes.
        test_share: The share of the labelled nodes for testing.
        valid_share: The share of the labelled nodes for validation.
        per_class: How many nodes of each class stay in the training part, as in the public splits of citation graphs
            (20); the other labels are not used in training.
        seed: The seed of the draw.
    """
    if not 0 < test_share + valid_share < 1 or min(test_share, valid_share) < 0 or test_share == 0:
        raise FedloomError(
            f"test_share={test_share} and valid_share={valid_share}: test on some nodes and leave some to train on."
        )
    check_value("per_class", per_class, Count | None)
    parts = {part: torch.zeros(len(source), dtype=torch.bool) for part in PARTS}
    for label in range(source.classes):
        members = (source.labels == label).nonzero().flatten().numpy()
        drawn = torch.from_numpy(numpy_generator(seed, "graph parts", label).permutation(members))
        tested, valid = round(test_share * len(drawn)), round(valid_share * len(drawn))
        parts["test"][drawn[:tested]] = True
        parts["valid"][drawn[tested : tested + valid]] = True
        parts["train"][drawn[tested + valid :][:per_class]] = True
    return replace(source, parts=parts)


def graph_of(data: Any, *, mask: int = 0, name: str = "own graph", normalise: bool | None = None) -> LabelledGraph:
    """A graph from a PyTorch Geometric ``Data`` object, or anything with ``x``, ``edge_index`` and ``y``.

    ``train_mask``, ``val_mask`` and ``test_mask`` are taken where they are.

    Args:
        data: The object.
        mask: The column of masks that hold several splits (Wiki-CS has twenty).
        name: What errors and reports call the graph.
        normalise: Whether features are divided by their row's sum; None does so unless some are negative.
    """

    def array(attribute: str) -> Any:
        value = getattr(data, attribute, None)
        if isinstance(value, Tensor):
            value = (value if value.layout == torch.strided else value.to_dense()).detach().cpu().numpy()
        return value

    for attribute in ("x", "edge_index", "y"):
        if array(attribute) is None:
            raise FedloomError(f"{name} has no {attribute}: a graph needs x, edge_index and y.")
    masks = {part: array(f"{'val' if part == 'valid' else part}_mask") for part in PARTS}
    found = {part: select_mask(value, mask, name) for part, value in masks.items() if value is not None}
    labels = array("y")
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    return labelled_graph(array("edge_index"), array("x"), labels, masks=found or None, name=name, normalise=normalise)


def select_mask(masks: Any, column: int, name: str) -> Any:
    """A mask, or one column of a table of masks."""
    values = np.asarray(masks)
    if values.ndim != 2:
        return values
    if not 0 <= column < values.shape[1]:
        raise FedloomError(f"mask={column}: {name} has the splits 0 to {values.shape[1] - 1}.")
    return values[:, column]


def _sparse(features: np.ndarray, name: str) -> Sparse:
    if features.ndim != 2 or features.dtype.kind not in "fiub":
        raise FedloomError(f"{name}: x is {features.dtype} of shape {features.shape}: give numbers, nodes × features.")
    return Sparse.from_dense(torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32)))


def _check_finite(features: Sparse, name: str) -> None:
    wrong = (~torch.isfinite(features.values)).nonzero().flatten()
    if len(wrong):
        place = int(wrong[0])
        value = float(features.values[place])
        problem = "is not a number (NaN)" if value != value else "is infinite"
        node, column = int(features.rows[place]), int(features.columns[place])
        raise FedloomError(f"{name}: feature {column} of node {node} {problem}: fill it in or leave the node out.")
    if not len(features) or not features.width:
        raise FedloomError(
            f"{name} has {len(features)} nodes with {features.width} features: give at least one of each."
        )


def _check_edges(edges: np.ndarray, nodes: int, name: str) -> Tensor:
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        hint = " (transpose it)" if edges.ndim == 2 and edges.shape[1] == 2 else ""
        raise FedloomError(
            f"{name}: edge_index is {edges.dtype} of shape {edges.shape}: give whole numbers, 2 × edges{hint}."
        )
    wrong = ((edges < 0) | (edges >= nodes)).any(0)
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        source, target = edges[:, place].tolist()
        raise FedloomError(
            f"{name}: edge {place} joins {source} and {target}, but the nodes are numbered 0 to {nodes - 1}: remove "
            "the edge or add the node."
        )
    return torch.from_numpy(edges.astype(np.int64))


def _classes(labels: np.ndarray, nodes: int, names: Sequence[str], name: str) -> tuple[Tensor, tuple[str, ...], int]:
    if labels.shape != (nodes,):
        raise FedloomError(f"{name}: {nodes} nodes and labels of shape {labels.shape}: give one label per node.")
    if labels.dtype.kind in "USO":
        unknown = np.char.strip(np.asarray(labels, dtype=str)) == ""
    else:
        unknown = labels == -1 if labels.dtype.kind in "if" else np.zeros(nodes, dtype=bool)
    if unknown.all():
        raise FedloomError(f"{name}: no node has a label: label some of each class.")
    filled = np.where(unknown, labels[~unknown][0], labels)
    numbers, found, count = number_labels(filled, len(names) or None, name)
    return torch.from_numpy(np.where(unknown, -1, numbers)), tuple(names) or tuple(found), count


def _parts(masks: Mapping[str, Any], labels: Tensor, name: str) -> dict[str, Tensor]:
    for part in ("train", "test"):
        if part not in masks:
            raise FedloomError(
                f"{name} has masks for {', '.join(masks)} and none for {part}: give both train and test."
            )
    parts = {}
    for part in PARTS:
        values = np.asarray(masks.get(part, np.zeros(len(labels), dtype=bool)))
        if values.shape != (len(labels),) or values.dtype != np.bool_:
            raise FedloomError(
                f"{name}: the mask of {part} is {values.dtype} of shape {values.shape}: give true or false per node."
            )
        parts[part] = torch.from_numpy(values.copy())
        unlabelled = (parts[part] & (labels < 0)).nonzero()
        if len(unlabelled):
            raise FedloomError(
                f"{name}: node {int(unlabelled[0])} is in the {part} part but has no label: label it or remove it."
            )
    twice = (sum(mask.long() for mask in parts.values()) > 1).nonzero()  # type: ignore[union-attr]
    if len(twice):
        raise FedloomError(f"{name}: node {int(twice[0])} is in two parts: put it in one of {', '.join(PARTS)}.")
    return parts


def _owners(client: Any, nodes: int, name: str) -> tuple[Tensor | None, tuple[str, ...]]:
    if client is None:
        return None, ()
    holder = np.asarray(client)
    if holder.shape != (nodes,):
        raise FedloomError(f"{name}: {nodes} nodes and clients of shape {holder.shape}: give one client per node.")
    keys, owner = np.unique(holder, return_inverse=True)
    return torch.from_numpy(owner.astype(np.int64)), tuple(str(key) for key in keys)
