"""The named tasks: each is a builder with local work that is known to train its model.

A new task over a known modality is one line here. A new modality is a builder of its own (``tasks/builder.py``).
"""

from __future__ import annotations

from fedloom.core.errors import unknown
from fedloom.core.local_work import LocalWork
from fedloom.registry.names import canonical_name
from fedloom.tasks.builder import TaskBuilder
from fedloom.tasks.dataset_task import DatasetBuilder
from fedloom.tasks.flows.formats.real_corpora import UNKNOWN_OWNER, read_bpmn, read_n8n
from fedloom.tasks.flows.learning.flow_source import OwnFlows, RealFlows, SyntheticFlows
from fedloom.tasks.flows.learning.flow_task import FlowBuilder
from fedloom.tasks.graphs.task import GraphBuilder
from fedloom.tasks.own_data import OwnDataBuilder

TASKS: dict[str, TaskBuilder] = {
    "digits": DatasetBuilder("digits", LocalWork(lr=0.1, batch_size=32)),
    "mnist": DatasetBuilder("mnist", LocalWork(lr=0.05, batch_size=32)),
    "mnist-writers": DatasetBuilder("mnist-writers", LocalWork(lr=0.05, batch_size=20)),
    "fashion-mnist": DatasetBuilder("fashion-mnist", LocalWork(lr=0.05, batch_size=32)),
    "cifar10": DatasetBuilder("cifar10", LocalWork(lr=0.01, batch_size=64, weight_decay=4e-4)),
    "cifar10-cnn": DatasetBuilder("cifar10", LocalWork(lr=0.01, batch_size=64), model="cnn"),
    "cifar100": DatasetBuilder("cifar100", LocalWork(lr=0.01, batch_size=64, weight_decay=4e-4)),
    "gtsrb": DatasetBuilder("gtsrb", LocalWork(lr=0.02, batch_size=32)),
    "har": DatasetBuilder("har", LocalWork(lr=0.02, batch_size=32)),
    "har-columns": DatasetBuilder("har-columns", LocalWork(lr=0.02, batch_size=32)),
    "shakespeare": DatasetBuilder("shakespeare", LocalWork(lr=1.0, batch_size=100, weight_decay=1e-4)),
    "stackexchange": DatasetBuilder("stackexchange", LocalWork(lr=0.316, batch_size=16)),
    "flows": FlowBuilder("the next action's kind in synthetic action flows of organisations", SyntheticFlows()),
    "flows-subkind": FlowBuilder("the same flows, the next action's subkind", SyntheticFlows("subkind")),
    "n8n": FlowBuilder("the next node in real n8n workflows, by owner", RealFlows(read_n8n, UNKNOWN_OWNER)),
    "bpmn": FlowBuilder("the next node in real BPMN models, by modelling exercise", RealFlows(read_bpmn)),
    "own-flows": FlowBuilder("the next node in your own flows: a folder per organisation", OwnFlows()),
    "cora": GraphBuilder("2,708 papers in a citation graph that clients share, 7 classes"),
    "citeseer": GraphBuilder("3,327 papers in a citation graph that clients share, 6 classes"),
    "pubmed": GraphBuilder("19,717 papers in a citation graph that clients share, 3 classes"),
    "twitch": GraphBuilder("streamers in seven countries, a graph each, 2 classes"),
    "own-graph": GraphBuilder("nodes of a graph of your own, divided among clients by community"),
    "own": OwnDataBuilder(),
}


def canonical_task(name: str) -> str:
    """A task's name as this project writes it: ``MNIST_Writers`` and ``mnist-writers`` are the same."""
    return canonical_name(name.strip(), TASKS)


def task_builder(name: str) -> TaskBuilder:
    """The builder of a named task; the name is read in any case."""
    if canonical_task(name) not in TASKS:
        raise unknown("task", name, TASKS)
    return TASKS[canonical_task(name)]
