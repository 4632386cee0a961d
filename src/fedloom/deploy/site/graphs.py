"""Deployed tasks on graphs: each site has a graph of its own, the server none but the one it tests on.

All graphs of a federation are blocks of one numbering of nodes, and a model knows them. Whoever does not hold a
client's graph has a single node without features in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import key
from fedloom.core.task import Task
from fedloom.deploy.protocol.schema import Schema, Sizes
from fedloom.deploy.server.remote_federation import Columns, known, nowhere
from fedloom.deploy.settings import SiteSettings
from fedloom.deploy.site.data import alone, data_path, known_classes, names_at, naming
from fedloom.models.gcn import GCN
from fedloom.models.graph import Graph, Graphs
from fedloom.models.sparse import Sparse
from fedloom.runs.config import RunConfig
from fedloom.tasks.graphs.federation import GraphFederation
from fedloom.tasks.graphs.labelled_graph import LabelledGraph, with_parts
from fedloom.tasks.graphs.read import read_graph


@dataclass(frozen=True)
class RemoteGraphs(GraphFederation):
    """A federation of graphs that nobody here holds: sizes, and the whole graph that is tested on."""

    @property
    def points(self) -> Tensor:
        """How many nodes each site says that it holds."""
        return self.graphs.sizes if self.counted is None else self.counted

    def counts(self) -> np.ndarray:
        """Training nodes per client, in one column."""
        return self.train.sizes.numpy()[:, None].copy()


def whole_graph(federation: GraphFederation) -> Columns:
    """The whole graph of a simulated federation with its labels and test nodes, as plain tensors."""
    graphs = federation.graphs
    graph, copies = graphs.original(graphs.whole), graphs.positions(graphs.whole)
    return {
        "starts": graph.features.starts,
        "columns": graph.features.columns,
        "values": graph.features.values,
        "edges": graph.edges,
        "labels": federation.columns["y"][copies],
        "test": federation.global_test - copies[0],
    }


def server_task(config: RunConfig, schema: Schema, sizes: Mapping[int, Sizes], whole: Columns | None) -> Task:
    """The hollow task on graphs."""
    told, (width,) = known(sizes, len(schema.sites)), schema.shape
    tested = _nobody(width)
    labels, test = torch.zeros(1, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)
    if whole is not None:
        features = Sparse(whole["starts"], whole["columns"], whole["values"], width)
        tested = Graph(torch.arange(len(features)), whole["edges"], features)
        labels, test = whole["labels"], whole["test"]
    graphs = Graphs([_nobody(width)] * len(told), tested)
    federation = RemoteGraphs(
        columns={"x": torch.arange(graphs.copies), "y": torch.cat([torch.zeros(len(told), dtype=torch.int64), labels])},
        train=nowhere([one.train for one in told]),
        valid=nowhere([one.valid for one in told]),
        test=nowhere([one.test for one in told]),
        classes=schema.classes,
        global_test=test + len(told),
        names=schema.sites,
        class_names=("all classes",),
        title="sites",
        counted=torch.tensor([one.points for one in told]),
        graphs=graphs,
    )
    return _task(config, federation)


def site_task(config: RunConfig, schema: Schema, settings: SiteSettings, folder: Path) -> Task:
    """A site's task on its own graph."""
    with naming(settings):
        path = data_path(settings, folder)
        source = _fitting(path, config, schema)
        if source.parts is None:
            shares = (config.task.test_share, config.task.valid_share, config.task.options.get("per_class"))
            seed = config.seed if config.task.seed is None else config.task.seed
            source = with_parts(source, *shares, seed=key(seed, "site data", settings.client))
        parts = source.parts or {}
        if not bool(parts["train"].any()):
            raise FedloomError(f"{path.name} has no node with a label to train on: label more nodes.")
    blocks = [
        source.graph if client == settings.client else _nobody(source.graph.features.width)
        for client in range(len(names_at(schema, settings)))
    ]
    graphs = Graphs(blocks, _nobody(source.graph.features.width))
    own = graphs.positions(settings.client)
    train, valid, test = (own[parts[part]] for part in ("train", "valid", "test"))
    labels = torch.zeros(graphs.copies, dtype=torch.int64)
    labels[own] = source.labels
    everything = own[source.labels >= 0]
    evaluates = settings.client == len(schema.sites)
    if evaluates:
        train, valid, test = everything[:1], everything[:0], everything
    federation = GraphFederation(
        columns={"x": torch.arange(graphs.copies), "y": labels},
        train=alone(train, schema, settings),
        valid=alone(valid, schema, settings),
        test=alone(test, schema, settings),
        classes=schema.classes,
        global_test=everything if evaluates else everything[:0],
        names=names_at(schema, settings),
        class_names=schema.class_names,
        title=path.name,
        graphs=graphs,
    )
    return _task(config, federation)


def _task(config: RunConfig, federation: GraphFederation) -> Task:
    graphs = federation.graphs
    model = GCN(graphs, graphs.features, federation.classes, **config.task.model_options)
    return Task(config.task.name, federation, model)


def _nobody(width: int) -> Graph:
    """One node without neighbours or features, in the place of a graph that is held elsewhere."""
    nothing = torch.zeros(0, dtype=torch.int64)
    features = Sparse(torch.zeros(2, dtype=torch.int64), nothing, torch.zeros(0), width)
    return Graph(torch.zeros(1, dtype=torch.int64), torch.zeros(2, 0, dtype=torch.int64), features)


def _fitting(path: Path, config: RunConfig, schema: Schema) -> LabelledGraph:
    """A site's graph with as many features as the task's, and with the task's class numbers."""
    source = read_graph(
        path,
        mask=int(config.task.options.get("mask", 0)),
        normalise=schema.row_normalise,
        features=schema.features,
    )
    width = source.graph.features.width
    if (width,) != schema.shape:
        raise FedloomError(f"{path.name}: its nodes have {width} features, and the task's have {schema.shape[0]}.")
    labels = source.labels
    if source.class_names:
        number = {name: place for place, name in enumerate(schema.class_names)}
        found = torch.tensor([number.get(name, schema.classes) for name in source.class_names])
        labels = torch.where(labels < 0, labels, found[labels.clamp(min=0)])
    strange = (labels >= schema.classes).nonzero().flatten()
    if len(strange):
        node = int(strange[0])
        called = source.class_names[int(source.labels[node])] if source.class_names else str(int(labels[node]))
        raise FedloomError(
            f"{path.name}: the label '{called}' of node {node} is no class of the task: {known_classes(schema)}."
        )
    return replace(source, labels=labels, classes=schema.classes, class_names=schema.class_names)
