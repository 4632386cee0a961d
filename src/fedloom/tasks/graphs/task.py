"""Tasks on graphs: a federation of graphs and a graph convolutional network over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from fedloom.core import seeds
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.models import Maker
from fedloom.models.gcn import GCN
from fedloom.models.graph import Graphs
from fedloom.registry.validation import validate
from fedloom.tasks.builder import OF_COLUMNS, TaskDeployment, TaskSettings
from fedloom.tasks.data_settings import with_changes
from fedloom.tasks.graphs.deployment import GraphDeployment
from fedloom.tasks.graphs.federation import GraphFederation
from fedloom.tasks.graphs.labelled_graph import LabelledGraph, with_parts
from fedloom.tasks.graphs.read import NAMED, named_graph, read_graph
from fedloom.tasks.graphs.split import split_graph

OWN = "own-graph"
MODEL = "gcn"
LOCAL_WORK = LocalWork(optimizer="adam", lr=0.01, weight_decay=5e-4, batch_size=0, epochs=3)
SHARES = (0.2, 0.0)
"""The test and validation shares when nobody names others."""


@dataclass(frozen=True)
class GraphOptions:
    """A graph task's own settings (``task.options``).

    ``split_seed`` is Louvain's seed (default: the task's); ``per_class`` is the number of training nodes of each class
    where the parts are drawn; ``mask`` is the column of masks that hold several splits; ``normalise`` says whether
    features are divided by their row's sum (default: unless some are negative).
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    split_seed: int | None = None
    per_class: int | None = None
    mask: int = 0
    normalise: bool | None = None


@dataclass(frozen=True)
class GCNOptions:
    """The settings of the ``gcn`` model (``task.model_options``)."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    hidden: int = 128
    dropout: float = 0.3


DEPLOYMENT = GraphDeployment()


@dataclass(frozen=True)
class GraphBuilder:
    """Builds the graph tasks: a graph, divided among clients, and a graph convolutional network over it."""

    about: str
    local: LocalWork = LOCAL_WORK
    deployment: TaskDeployment = DEPLOYMENT
    standalone_model: ClassVar[None] = None

    def describe(self) -> str:
        """One line about the task."""
        return f"{self.about}; model {MODEL}"

    def complete(self, settings: TaskSettings) -> TaskSettings:
        """The settings with the options of the task and of the model written out and an absolute path."""
        options = _options(settings)
        written = {key: value for key, value in asdict(options).items() if value is not None}
        named = not isinstance(settings.model, nn.Module)
        return settings.complete(
            MODEL,
            options={"split_seed": settings.seed, **written},
            model_options=asdict(_model_options(settings.model_options)) if named else settings.model_options,
        )

    def build(self, settings: TaskSettings) -> Task:
        """A named graph task."""
        settings.refuse(("partition", "augment", "group_column", *OF_COLUMNS), "it divides its graph by community")
        settings.refuse(("models",), "all its clients have one model")
        settings = self.complete(settings)
        name, seed, options = settings.name, settings.seed, _options(settings)
        shares = settings.test_share, settings.valid_share
        if settings.drift is not None:
            raise FedloomError(
                f"task {name} does not support drift, because its samples are nodes of a graph: leave it out."
            )
        source = _source(name, settings.path, options)
        if source.parts is None:
            source = with_parts(source, *shares, options.per_class, seed)
        elif shares != SHARES or options.per_class is not None:
            raise FedloomError(
                f"{name} already defines which nodes are for training, validation and testing: leave out test_share, "
                "valid_share and per_class."
            )
        divided = split_graph(source, settings.clients, seed if options.split_seed is None else options.split_seed)
        federation = with_changes(GraphFederation.of(source, divided), settings.withhold, None, seed)
        network = _model(divided.graphs, source.classes, settings.model, settings.model_options, seed)
        section, objects = settings.section(federation.clients), settings.python_objects
        return Task(name, federation, network, made_from=section, python_objects=objects)


def graph_task(
    source: LabelledGraph,
    clients: int | None = None,
    *,
    model: nn.Module | None = None,
    model_options: Mapping[str, Any] | None = None,
    split_seed: int | None = None,
    seed: int = 0,
) -> Task:
    """A task from a graph in Python (``graph_of(data)``); its nodes must have parts (``with_parts``).

    Args:
        source: The graph, with the classes of its nodes.
        clients: How many clients the graph is split into (default 4). Leave it out where the nodes name their clients.
        model: A network for graphs; the default is the built-in one.
        model_options: Options of the built-in network.
        split_seed: The seed of Louvain's communities; None is ``seed``.
        seed: The seed of the initial weights.
    """
    divided = split_graph(source, clients, seed if split_seed is None else split_seed)
    network = _model(divided.graphs, source.classes, model, model_options or {}, seed)
    return Task(source.name, GraphFederation.of(source, divided), network)


def _source(name: str, path: str | None, chosen: GraphOptions) -> LabelledGraph:
    if name in NAMED:
        if path is not None:
            raise FedloomError(f"task {name} reads its own file: leave out the path, or use the task {OWN}.")
        if chosen.mask or chosen.normalise is not None:
            raise FedloomError(f"mask and normalise are for a graph of your own, and not for {name}: leave them out.")
        return named_graph(name)
    if path is None:
        raise FedloomError(f"task {OWN} needs a path: an .npz file, or a folder with nodes.csv and edges.csv.")
    return read_graph(path, mask=chosen.mask, normalise=chosen.normalise)


def _options(settings: TaskSettings) -> GraphOptions:
    chosen: GraphOptions = validate(GraphOptions, dict(settings.options), f"the options of task {settings.name}")
    return chosen


def _model_options(given: Mapping[str, Any]) -> GCNOptions:
    chosen: GCNOptions = validate(GCNOptions, dict(given), "the options of model gcn")
    return chosen


def _model(
    graphs: Graphs, classes: int, model: str | nn.Module | Maker | None, options: Mapping[str, Any], seed: int
) -> nn.Module:
    """The model over some graphs, with the initial weights of this seed."""
    if isinstance(model, nn.Module):
        if options:
            raise FedloomError("model_options need a named model: leave them out, or set model = gcn.")
        return model
    if model not in (None, MODEL):
        raise FedloomError(f"model '{model}' does not take nodes of a graph: leave it out (gcn), or give a module.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeds.key(seed, "model"))
        return GCN(graphs, graphs.features, classes, **asdict(_model_options(options)))


CORA = GraphBuilder("2,708 papers in a citation graph that clients share, 7 classes")
CITESEER = GraphBuilder("3,327 papers in a citation graph that clients share, 6 classes")
PUBMED = GraphBuilder("19,717 papers in a citation graph that clients share, 3 classes")
TWITCH = GraphBuilder("streamers in seven countries, a graph each, 2 classes")
OWN_GRAPH = GraphBuilder("nodes of a graph of your own, divided among clients by community")
