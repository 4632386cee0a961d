"""The flow tasks: predict the next action of a flow under construction, a client per organisation.

``flows`` and ``flows-subkind`` are the synthetic corpus after a thesis on personalised federated learning for action
flows; ``n8n`` and ``bpmn`` are real flows, by owner and by modelling exercise and language; ``own-flows`` are a
user's. The model is FullGN with the widths of the thesis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from torch import nn

from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.data.changes.concept_drift import Drift
from fedloom.data.changes.withheld_class import Withhold
from fedloom.models import Maker
from fedloom.tasks.builder import OF_COLUMNS, TaskDeployment, TaskSettings
from fedloom.tasks.data_settings import with_changes
from fedloom.tasks.flows.corpus import Corpus
from fedloom.tasks.flows.formats.real_corpora import UNKNOWN_OWNER, read_bpmn, read_n8n
from fedloom.tasks.flows.learning.data_points import FlowInputs
from fedloom.tasks.flows.learning.flow_counts import FlowCounts
from fedloom.tasks.flows.learning.flow_deployment import FlowDeployment
from fedloom.tasks.flows.learning.flow_federation import FlowClasses, Label, federation_of, schema_of
from fedloom.tasks.flows.learning.flow_model import MODEL, flow_model, fullgn_options
from fedloom.tasks.flows.learning.flow_source import FlowSource, OwnFlows, RealFlows, SyntheticFlows
from fedloom.tasks.flows.learning.public_words import public_classes, public_schema
from fedloom.tasks.flows.learning.saved_flow_model import SavedFlowModel

LEFT_OUT = ("template",)
"""Attributes that only identify a flow."""
LOCAL_WORK = LocalWork(lr=0.05, batch_size=128)


@dataclass(frozen=True)
class FlowBuilder:
    """Builds the flow tasks: a corpus, the organisations that take part as clients, and a model over their flows."""

    about: str
    source: FlowSource
    local: LocalWork = LOCAL_WORK
    deployment: TaskDeployment = FlowDeployment()  # noqa: RUF009 (it has no state)
    standalone_model: ClassVar[type[SavedFlowModel]] = SavedFlowModel

    def describe(self) -> str:
        """One line about the task."""
        return f"{self.about}; model {MODEL}"

    def complete(self, settings: TaskSettings) -> TaskSettings:
        """The settings with the options of the task and of the model written out."""
        named = not isinstance(settings.model, nn.Module)
        return settings.complete(
            MODEL,
            options=asdict(self.source.options(settings.options, settings.name)),
            model_options=asdict(fullgn_options(settings.model_options)) if named else {},
        )

    def build(self, settings: TaskSettings) -> Task:
        """A named flow task."""
        settings.refuse(("partition", "augment", "group_column", *OF_COLUMNS), "it divides its data by organisation")
        if (settings.path is not None) != self.source.takes_path:
            why = (
                "needs a path: a folder of flows"
                if self.source.takes_path
                else "takes no path: use own-flows for your own flows"
            )
            raise FedloomError(f"task {settings.name} {why}.")
        settings.refuse(("models",), "all its clients have one model")
        settings = self.complete(settings)
        flows = self.source.read(self.source.options(settings.options, settings.name), settings)
        task = task_of_corpus(
            flows.clients,
            settings.name,
            label=flows.label,
            least_count=flows.least_count,
            vocabulary=flows.whole,
            buckets=flows.buckets,
            model=settings.model,
            model_options=settings.model_options,
            test_share=settings.test_share,
            valid_share=settings.valid_share,
            withhold=settings.withhold,
            drift=settings.drift,
            seed=settings.seed,
        )
        section = settings.section(task.federation.clients)
        return replace(task, made_from=section, python_objects=settings.python_objects)


def task_of_corpus(
    corpus: Corpus,
    name: str = "own-flows",
    *,
    label: Label = "kind",
    least_count: int = 1,
    vocabulary: Corpus | None = None,
    buckets: int | None = None,
    model: str | nn.Module | Maker | None = None,
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
        buckets: take the classes and words from what is public on the platform instead, with this many buckets for
            private words (``public_words``).
        model: ``fullgn`` or a module; None is ``fullgn``.
        model_options: the options of ``fullgn``.
        test_share: the share of data points for testing.
        valid_share: the share of data points for validation.
        withhold: a class that some clients lack in their training data.
        drift: the rounds in which clients' data change.
        seed: of the split, the placement order and the initial weights.
    """
    whole, dialect = vocabulary or corpus, corpus.dialect
    if buckets is None:
        schema, classes = schema_of(whole, label, LEFT_OUT), FlowClasses.of(whole, label, least_count)
    else:
        schema = public_schema(dialect, label, buckets)
        classes = public_classes(dialect, label, least_count, buckets)
    federation, table = federation_of(
        corpus, schema, classes, test_share=test_share, valid_share=valid_share, seed=seed
    )
    federation = with_changes(federation, withhold, drift, seed)
    inputs = FlowInputs(table, dialect)
    return Task(
        name,
        federation,
        flow_model(schema, len(classes.names), label, model, model_options or {}, seed),
        prepare=inputs,
        fingerprint_tensors=inputs.tensors,
        baselines=(FlowCounts(table, federation.columns["x"]),),
    )


FLOWS = FlowBuilder("the next action's kind in synthetic action flows of organisations", SyntheticFlows())
FLOWS_SUBKIND = FlowBuilder("the same flows, the next action's subkind", SyntheticFlows("subkind"))
N8N = FlowBuilder("the next node in real n8n workflows, by owner", RealFlows(read_n8n, UNKNOWN_OWNER))
BPMN = FlowBuilder("the next node in real BPMN models, by modelling exercise", RealFlows(read_bpmn))
OWN_FLOWS = FlowBuilder("the next node in your own flows: a folder per organisation", OwnFlows())
