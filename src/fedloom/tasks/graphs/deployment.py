"""How graph tasks are deployed: each site has a graph of its own, the server only the one it tests on.

All graphs of a federation are blocks of one numbering of nodes, and a model knows them. A participant that does not
hold a client's graph has a single node without features in its place.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, needed_facts
from fedloom.core.seeds import key
from fedloom.core.task import FederationView, Task
from fedloom.data.remote_federation import lists_of_site, placeholder_lists, sizes_of_all
from fedloom.data.tables.schema import ClientSizes, DataSchema, SampleColumns
from fedloom.data.tables.targets_under_schema import class_list
from fedloom.models.gcn import GCN
from fedloom.models.graph import Graph, Graphs
from fedloom.models.sparse import Sparse
from fedloom.tasks.builder import SiteSource, TaskSettings
from fedloom.tasks.deployment import column_schema
from fedloom.tasks.graphs.federation import GraphFederation
from fedloom.tasks.graphs.labelled_graph import LabelledGraph, with_parts
from fedloom.tasks.graphs.read import node_features, read_graph

LEAST_SALT = 16
"""The fewest characters of a salt."""


@dataclass(frozen=True)
class RemoteGraphFederation(GraphFederation):
    """A federation of graphs that are held elsewhere: their sizes, and the whole graph for tests."""

    @property
    def points(self) -> Tensor:
        """How many nodes each site announces."""
        return self.graphs.sizes if self.counted is None else self.counted

    def counts(self) -> np.ndarray:
        """Training nodes per client, in one column."""
        return self.train.sizes.numpy()[:, None].copy()


@dataclass(frozen=True)
class GraphDeployment:
    """Deploys a graph task. If the method uses nodes that sites share, they are found by salted hashes of their ids."""

    def schema(self, task: Task, settings: TaskSettings, algorithm: Algorithm, sites: tuple[str, ...]) -> DataSchema:
        """Features and classes of the nodes."""
        graphs = _graphs(task.federation)
        path = Path(settings.path or "")
        return column_schema(task, sites).model_copy(
            update={
                "kind": "graph",
                "matches_nodes": Fact.GRAPHS in needed_facts(algorithm),
                "shape": (graphs.features,),
                "dtype": "float32",
                "features": tuple(node_features(path)) if settings.path is not None and path.is_dir() else (),
                "row_normalise": _row_normalise(graphs, settings),
            }
        )

    def global_test(self, federation: FederationView) -> SampleColumns | None:
        """The whole graph of a simulated federation with its labels and test nodes."""
        graphs = _graphs(federation)
        graph, copies = graphs.original(graphs.whole), graphs.positions(graphs.whole)
        return {
            "starts": graph.features.starts,
            "columns": graph.features.columns,
            "values": graph.features.values,
            "edges": graph.edges,
            "labels": federation.columns["y"][copies],
            "test": federation.global_test - copies[0],
        }

    def server_task(
        self,
        settings: TaskSettings,
        schema: DataSchema,
        sizes: Mapping[int, ClientSizes],
        communal: SampleColumns | None,
        global_test: SampleColumns | None,
        server_set: SampleColumns | None = None,
    ) -> Task:
        """The model over the whole graph that is tested on, and a single node for each client."""
        everyone, (width,) = sizes_of_all(sizes, len(schema.sites)), schema.shape
        whole = _placeholder(width)
        labels, test = torch.zeros(1, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)
        if global_test is not None:
            features = Sparse(global_test["starts"], global_test["columns"], global_test["values"], width)
            whole = Graph(torch.arange(len(features)), global_test["edges"], features)
            labels, test = global_test["labels"], global_test["test"]
        clients = len(everyone)
        graphs = Graphs([_placeholder(width)] * clients, whole)
        if schema.matches_nodes:
            graphs.hide_anchors()
        federation = RemoteGraphFederation(
            columns={
                "x": torch.arange(graphs.copies),
                "y": torch.cat([torch.zeros(clients, dtype=torch.int64), labels]),
            },
            train=placeholder_lists([one.train for one in everyone]),
            valid=placeholder_lists([one.valid for one in everyone]),
            test=placeholder_lists([one.test for one in everyone]),
            classes=schema.classes,
            global_test=test + clients,
            names=schema.sites,
            class_names=("all classes",),
            title="sites",
            counted=torch.tensor([one.points for one in everyone]),
            graphs=graphs,
        )
        return _task(settings, federation)

    def site_task(
        self, settings: TaskSettings, schema: DataSchema, site: SiteSource, communal: SampleColumns | None
    ) -> Task:
        """The model over the site's own graph."""
        with site.errors():
            source = _read_under_schema(site.path, settings, schema)
            if source.parts is None:
                shares = (settings.test_share, settings.valid_share, settings.options.get("per_class"))
                source = with_parts(source, *shares, seed=key(settings.seed, "site data", site.client))
            parts = source.parts or {}
            if not bool(parts["train"].any()):
                raise FedloomError(f"{site.path.name} has no labelled node to train on: label more nodes.")
        names, width = site.names(schema), source.graph.features.width
        blocks = [source.graph if client == site.client else _placeholder(width) for client in range(len(names))]
        graphs = Graphs(blocks, _placeholder(width))
        if schema.matches_nodes:
            hashes = _hash_ids(source, site)
            graphs.id_hashes = [hashes if client == site.client else hashes[:2] for client in range(len(names))]
        own = graphs.positions(site.client)
        train, valid, test = (own[parts[part]] for part in ("train", "valid", "test"))
        labels = torch.zeros(graphs.copies, dtype=torch.int64)
        labels[own] = source.labels
        everything = own[source.labels >= 0]
        if site.evaluates(schema):
            train, valid, test = everything[:1], everything[:0], everything
        federation = GraphFederation(
            columns={"x": torch.arange(graphs.copies), "y": labels},
            train=lists_of_site(train, site.client, len(names)),
            valid=lists_of_site(valid, site.client, len(names)),
            test=lists_of_site(test, site.client, len(names)),
            classes=schema.classes,
            global_test=everything if site.evaluates(schema) else everything[:0],
            names=names,
            class_names=schema.class_names,
            title=site.path.name,
            graphs=graphs,
        )
        return _task(settings, federation)

    def hide_from_sites(self, task: Task, algorithm: Algorithm) -> None:
        """Let clients find the nodes that they share by hashes, as sites do."""
        if Fact.GRAPHS in needed_facts(algorithm):
            _graphs(task.federation).hide_anchors()

    def prediction_error(self, name: str) -> str | None:
        """Nodes are not predicted one by one."""
        return (
            f"task {name} is about nodes of graphs, which are not predicted one by one from a file: a node's class "
            "depends on its neighbours."
        )


def _hash_ids(source: LabelledGraph, site: SiteSource) -> Tensor:
    """A hash that only depends on the sites' salt, and one of each node's id: HMAC-SHA256, cut to 63 bits."""
    with site.errors():
        if not source.ids:
            raise FedloomError(
                f"{site.path.name} has no ids: sites find the nodes that they share by these; add an array 'ids' with "
                "one per node."
            )
        if len(site.salt) < LEAST_SALT:
            raise FedloomError(
                "this method finds the nodes that sites share by hashes of their ids: set salt in [data] to a secret "
                f"of at least {LEAST_SALT} characters that all sites have agreed on."
            )
    texts = ["fedloom: the sites have one salt", *(f"node {one}" for one in source.ids)]
    digests = [hmac.digest(site.salt.encode(), text.encode("utf-8", "surrogatepass"), "sha256") for text in texts]
    return torch.tensor([int.from_bytes(digest[:8]) >> 1 for digest in digests])


def _graphs(federation: FederationView) -> Graphs:
    if not isinstance(federation, GraphFederation):
        raise FedloomError("a graph task needs a federation of graphs.")
    return federation.graphs


def _row_normalise(graphs: Graphs, settings: TaskSettings) -> bool:
    """Whether the nodes' features are divided by their row's sum: as the settings say, or unless some are negative."""
    chosen = settings.options.get("normalise")
    return bool(chosen) if chosen is not None else not bool((graphs.original(graphs.whole).features.values < 0).any())


def _task(settings: TaskSettings, federation: GraphFederation) -> Task:
    graphs = federation.graphs
    model = GCN(graphs, graphs.features, federation.classes, **settings.model_options)
    return Task(settings.name, federation, model)


def _placeholder(width: int) -> Graph:
    """One node without neighbours or features, in the place of a graph that is held elsewhere."""
    nothing = torch.zeros(0, dtype=torch.int64)
    features = Sparse(torch.zeros(2, dtype=torch.int64), nothing, torch.zeros(0), width)
    return Graph(torch.zeros(1, dtype=torch.int64), torch.zeros(2, 0, dtype=torch.int64), features)


def _read_under_schema(path: Path, settings: TaskSettings, schema: DataSchema) -> LabelledGraph:
    """A site's graph, with the schema's features and class numbers."""
    source = read_graph(
        path,
        mask=int(settings.options.get("mask", 0)),
        normalise=schema.row_normalise,
        features=schema.features,
    )
    width = source.graph.features.width
    if (width,) != schema.shape:
        raise FedloomError(f"{path.name}: its nodes have {width} features, but the task's have {schema.shape[0]}.")
    labels = source.labels
    if source.class_names:
        number = {name: place for place, name in enumerate(schema.labels)}
        found = torch.tensor([number.get(name, schema.classes) for name in source.class_names])
        labels = torch.where(labels < 0, labels, found[labels.clamp(min=0)])
    unknown = (labels >= schema.classes).nonzero().flatten()
    if len(unknown):
        node = int(unknown[0])
        called = source.class_names[int(source.labels[node])] if source.class_names else str(int(labels[node]))
        raise FedloomError(
            f"{path.name}: the label '{called}' of node {node} is not a class of the task: {class_list(schema)}."
        )
    return replace(source, labels=labels, classes=schema.classes, class_names=schema.class_names)
