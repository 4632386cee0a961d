"""The flow tasks: predict the next action of a flow under construction, a client per organisation.

``flows`` and ``flows-subkind`` are the synthetic corpus after a thesis on personalised federated learning for action
flows; ``n8n`` and ``bpmn`` are real flows, by owner and by modelling exercise and language; ``own-flows`` are a
user's. The model is FullGN with the widths of the thesis.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedloom.core import seeds
from fedloom.core.errors import FedloomError, unknown
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.core.validation import validate
from fedloom.data.changes import with_changes
from fedloom.data.concept_drift import Drift
from fedloom.data.withheld_class import Withhold
from fedloom.models.fullgn import FullGN
from fedloom.tasks.builder import TaskDeployment, TaskSettings
from fedloom.tasks.deployment import RehearsalOnly
from fedloom.tasks.flows.corpus import Corpus, Organisation
from fedloom.tasks.flows.formats.read_corpus import read_folder
from fedloom.tasks.flows.formats.real_corpora import UNKNOWN_OWNER, read_bpmn, read_n8n
from fedloom.tasks.flows.learning.data_points import FlowInputs
from fedloom.tasks.flows.learning.flow_federation import FlowClasses, Label, federation_of, schema_of
from fedloom.tasks.flows.learning.flow_schema import (
    EDGE,
    GRAPH,
    NODE,
    SUBKIND_GRAPH,
    SUBKIND_NODE,
    FlowSchema,
    embedding_tables,
)
from fedloom.tasks.flows.synthetic.generator import generate

log = logging.getLogger("fedloom")
LEFT_OUT = ("template",)
"""Attributes that only identify a flow."""
FLOW_TASKS = ("flows", "flows-subkind", "n8n", "bpmn", "own-flows")
MODEL = "fullgn"
LOCAL_WORK = LocalWork(lr=0.05, batch_size=128)
PREDICTION = "is about flows: use fedloom flows recommend, which predicts the next step of a flow."
"""What ``fedloom predict`` says of these tasks."""
CLIENTS = 15
"""The default number of organisations of the synthetic corpus."""


@dataclass(frozen=True)
class SyntheticFlowOptions:
    """The options of ``flows``: the label to predict, and the data points of the largest of the 33 organisations."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    label: Label = "kind"
    largest: int = 14_000


@dataclass(frozen=True)
class RealFlowOptions:
    """The options of real flows.

    Kinds with fewer than ``least_count`` occurrences are one class, organisations with fewer than ``least_flows`` flows
    are no clients, and flows with more than ``largest_flow`` nodes are left out.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    least_count: int = 100
    least_flows: int = 10
    largest_flow: int = 60

    def __post_init__(self) -> None:
        for name, least in (("least_count", 1), ("least_flows", 1), ("largest_flow", 2)):
            if getattr(self, name) < least:
                raise FedloomError(f"{name} must be at least {least}, got {getattr(self, name)}.")


@dataclass(frozen=True)
class OwnFlowOptions(RealFlowOptions):
    """The options of ``own-flows``: those of real flows, and the label to predict."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    least_count: int = 10
    least_flows: int = 2
    largest_flow: int = 200
    label: Label = "kind"


@dataclass(frozen=True)
class FullGNOptions:
    """The options of the model ``fullgn`` (``task.model_options``)."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    width: int = 90
    blocks: int = 6


DEPLOYMENT = RehearsalOnly(PREDICTION)


@dataclass(frozen=True)
class FlowBuilder:
    """Builds the flow tasks: a corpus, the organisations that take part as clients, and a model over their flows."""

    about: str
    local: LocalWork = LOCAL_WORK
    modality: str = "flows"
    deployment: TaskDeployment = DEPLOYMENT

    def describe(self) -> str:
        """One line about the task."""
        return f"{self.about}; model {MODEL}"

    def complete(self, settings: TaskSettings) -> TaskSettings:
        """The settings with the model written out and an absolute path."""
        return settings.complete(MODEL)

    def build(self, settings: TaskSettings) -> Task:
        """A named flow task."""
        name, clients, options, path, seed = (
            settings.name, settings.clients, settings.options, settings.path, settings.seed,
        )  # fmt: skip
        settings.refuse(("partition", "communal_per_class", "augment"), "it divides its data by organisation")
        if (path is not None) != (name == "own-flows"):
            why = (
                "needs a path: a folder of flows" if path is None else "takes no path: use own-flows for flows of yours"
            )
            raise FedloomError(f"task {name} {why}.")
        if name in ("flows", "flows-subkind"):
            usual = {} if name == "flows" else {"label": "subkind"}
            chosen = validate(SyntheticFlowOptions, {**usual, **options}, f"the options of task {name}")
            if name == "flows-subkind" and chosen.label != "subkind":
                raise FedloomError(
                    f"label={chosen.label} in the options of task {name}: it predicts subkinds; use the task flows."
                )
            whole = corpus = generate(CLIENTS if clients is None else clients, chosen.largest, seed)
            label, least_count = chosen.label, 1
        elif name in ("n8n", "bpmn", "own-flows"):
            chosen = validate(
                OwnFlowOptions if name == "own-flows" else RealFlowOptions, dict(options), f"the options of task {name}"
            )
            everything = read_n8n() if name == "n8n" else read_bpmn() if name == "bpmn" else read_folder(str(path))
            whole = suitable_organisations(everything, chosen, nobody=UNKNOWN_OWNER if name == "n8n" else None)
            corpus = random_organisations(whole, clients, seed)
            label, least_count = getattr(chosen, "label", "kind"), chosen.least_count
        else:
            raise unknown("flow task", name, FLOW_TASKS)
        made = task_of_corpus(
            corpus, name, label=label, least_count=least_count, vocabulary=whole, model=settings.model,
            model_options=settings.model_options, test_share=settings.test_share, valid_share=settings.valid_share,
            withhold=settings.withhold, drift=settings.drift, seed=seed,
        )  # fmt: skip
        if isinstance(settings.model, nn.Module):
            return made
        made_from = {"name": name, "options": asdict(chosen), **made.made_from}
        return replace(made, made_from=made_from if path is None else {**made_from, "path": str(Path(path).resolve())})


def task_of_corpus(
    corpus: Corpus,
    name: str = "own-flows",
    *,
    label: Label = "kind",
    least_count: int = 1,
    vocabulary: Corpus | None = None,
    model: str | nn.Module | None = None,
    model_options: Mapping[str, Any] | None = None,
    test_share: float = 0.15,
    valid_share: float = 0.15,
    withhold: Withhold | Mapping[str, Any] | None = None,
    drift: Drift | Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Task:
    """A task from a corpus in memory.

    Args:
        corpus: the organisations that are the clients.
        name: the name of the task.
        label: what is predicted of an action, its kind or its subkind.
        least_count: kinds with fewer occurrences are one class.
        vocabulary: the corpus that the classes and words are taken from, so that they do not depend on which of its
            organisations are clients; None is ``corpus``.
        model: ``fullgn`` or a module; None is ``fullgn``.
        model_options: the options of ``fullgn``.
        test_share: the share of data points for testing.
        valid_share: the share of data points for validation.
        withhold: a class that some clients lack in their training data.
        drift: the rounds in which clients' data change.
        seed: of the split, the placement order and the initial weights.
    """
    whole = vocabulary or corpus
    schema, classes = schema_of(whole, label, LEFT_OUT), FlowClasses.of(whole, label, least_count)
    federation, table = federation_of(
        corpus, schema, classes, test_share=test_share, valid_share=valid_share, seed=seed
    )
    federation, altered = with_changes(federation, withhold, drift, seed)
    network, settings = _model(schema, classes, model, model_options or {}, seed)
    made_from = {"clients": federation.clients, "model": "fullgn", "model_options": settings, "seed": seed}
    made_from |= {"test_share": test_share, "valid_share": valid_share, **altered}
    return Task(
        name,
        federation,
        network,
        prepare=FlowInputs(table, corpus.dialect),
        made_from={} if isinstance(model, nn.Module) else made_from,
    )


def network(schema: FlowSchema, classes: int, label: Label, **options: int) -> FullGN:
    """FullGN for flows of a schema, with the embedding widths of the thesis."""
    node, graph = (NODE, GRAPH) if label == "kind" else (SUBKIND_NODE, SUBKIND_GRAPH)
    return FullGN(
        embedding_tables(schema.node, node),
        embedding_tables(schema.edge, EDGE),
        embedding_tables(schema.graph, graph),
        classes,
        **options,
    )


def _model(
    schema: FlowSchema, classes: FlowClasses, model: str | nn.Module | None, options: Mapping[str, Any], seed: int
) -> tuple[nn.Module, dict[str, int]]:
    if isinstance(model, nn.Module):
        return model, {}
    if model not in (None, "fullgn"):
        raise FedloomError(f"model '{model}' cannot be used for flows: use fullgn, or a module of yours.")
    settings = asdict(validate(FullGNOptions, dict(options), "task.model_options"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeds.key(seed, "model"))
        return network(schema, len(classes.names), classes.label, **settings), settings


def suitable_organisations(corpus: Corpus, limits: RealFlowOptions, nobody: str | None = None) -> Corpus:
    """The organisations of a corpus with enough flows, without too large flows; what is left out is logged.

    ``nobody`` is the name under which the corpus keeps flows of unknown owners, which are left out.
    """
    kept: list[Organisation] = []
    few = unowned = large = 0
    for organisation in corpus.organisations:
        flows, extra = (
            tuple(flow for flow in some if len(flow.nodes) <= limits.largest_flow)
            for some in (organisation.flows, organisation.extra)
        )
        if organisation.name == nobody:
            unowned += len(organisation.flows)
        elif len(flows) < limits.least_flows:
            few += 1
        else:
            large += len(organisation.flows) + len(organisation.extra) - len(flows) - len(extra)
            kept.append(Organisation(organisation.name, flows, extra))
    if not kept:
        raise FedloomError(
            f"no organisation of '{corpus.title}' has {limits.least_flows} flows of at most {limits.largest_flow} "
            "nodes: lower least_flows, or raise largest_flow."
        )
    left_out = {
        f"organisations with fewer than {limits.least_flows} flows": few,
        "flows of unknown owners": unowned,
        f"flows of more than {limits.largest_flow} nodes": large,
    }
    summary = ", ".join(f"{count:,} {what}" for what, count in left_out.items() if count)
    if summary:
        log.warning("%s: left out: %s", corpus.title, summary)
    return replace(corpus, organisations=tuple(kept))


def random_organisations(corpus: Corpus, clients: int | None, seed: int) -> Corpus:
    """A corpus with ``clients`` of its organisations, chosen at random, in their old order; None is all of them."""
    there = len(corpus.organisations)
    if clients is None or clients == there:
        return corpus
    if not 1 <= clients <= there:
        raise FedloomError(f"clients={clients}: '{corpus.title}' has {there} organisations that can take part.")
    chosen = sorted(seeds.numpy_generator(seed, "organisations").permutation(there)[:clients].tolist())
    return replace(corpus, organisations=tuple(corpus.organisations[i] for i in chosen))
