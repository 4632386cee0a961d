"""How flow tasks are deployed: each site has a folder of its own flows, and the server has none.

Server and sites share the words of the run (``public_words``) and nothing else of anybody's flows. A site makes tokens
of its flows itself, and divides them into parts as the simulator does; what its private words are, only its own model
knows. Words that were pooled are somebody's words: such a run can only be rehearsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import torch

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.task import FederationView, Task
from fedloom.data.federation import Federation
from fedloom.data.remote_federation import lists_of_site, remote_federation
from fedloom.data.tables.schema import ClientSizes, DataSchema, SampleColumns
from fedloom.tasks.builder import SiteSource, TaskSettings
from fedloom.tasks.deployment import column_schema
from fedloom.tasks.flows.corpus import Corpus, Organisation
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.formats.read_corpus import read_flows
from fedloom.tasks.flows.learning.data_points import FlowInputs, FlowTable
from fedloom.tasks.flows.learning.flow_federation import FlowClasses, Label, federation_of
from fedloom.tasks.flows.learning.flow_model import flow_model
from fedloom.tasks.flows.learning.flow_schema import FlowSchema
from fedloom.tasks.flows.rules import DIALECTS, Dialect

POOLED = (
    "takes its words from the flows of all organisations, whose words would then be in every folder: set "
    'vocabulary = "public" in [task.options]'
)
"""Why a run with pooled words is only rehearsed, after the words "task NAME"."""
PREDICTION = "is about flows: use fedloom flows recommend, which predicts the next step of a flow."
"""What ``fedloom predict`` says of these tasks."""


@dataclass(frozen=True)
class FlowDeployment:
    """Deploys a flow task with public words; one with pooled words can only be rehearsed."""

    def schema(self, task: Task, settings: TaskSettings, algorithm: Algorithm, sites: tuple[str, ...]) -> DataSchema:
        """The dialect of the flows, their words and their classes."""
        schema, inputs = column_schema(task, sites), cast(FlowInputs, task.prepare)
        if settings.options.get("vocabulary") != "public" or inputs.dialect is None:
            return schema.model_copy(update={"kind": "rehearsal", "reason": f"task {settings.name} {POOLED}"})
        words = {"dialect": inputs.dialect.name, **inputs.schema.to_plain()}
        return schema.model_copy(update={"kind": "flows", "flows": words})

    def global_test(self, federation: FederationView) -> SampleColumns | None:
        """None: the server has no flows, not even the run file's."""
        return None

    def server_task(
        self,
        settings: TaskSettings,
        schema: DataSchema,
        sizes: Mapping[int, ClientSizes],
        communal: SampleColumns | None,
        global_test: SampleColumns | None,
        server_set: SampleColumns | None = None,
    ) -> Task:
        """The model over a federation of sizes, in which every sample is the smallest flow."""
        words, dialect = _words(schema), _dialect(schema)
        smallest = Flow((Node("start", dialect.start), Node("next", "")), (Edge("start", "next"),))
        table = FlowTable.of([smallest], [range(2)], words)
        points, _ = table.points(torch.tensor([False, True]))
        federation = remote_federation(schema, sizes, None, None)
        columns = {"x": points, "y": torch.zeros(1, dtype=torch.int64)}
        return _task(settings, schema, replace(federation, columns=columns), FlowInputs(table, dialect))

    def site_task(
        self, settings: TaskSettings, schema: DataSchema, site: SiteSource, communal: SampleColumns | None
    ) -> Task:
        """The model over the flows of a site's folder."""
        words, dialect, classes = _words(schema), _dialect(schema), _classes(settings, schema)
        with site.errors():
            flows = _suitable_flows(site, settings.options, dialect)
            corpus = Corpus((Organisation(site.name, flows),), dialect, site.path.name)
            own, table = federation_of(
                corpus,
                words,
                classes,
                test_share=settings.test_share,
                valid_share=settings.valid_share,
                seed=settings.seed,
            )
        names = site.names(schema)
        train, valid, test = own.train[0], own.valid[0], own.test[0]
        everything = torch.arange(len(own.columns["y"]))
        if site.evaluates(schema):
            train, valid, test = everything[:1], everything[:0], everything
        federation = replace(
            own,
            train=lists_of_site(train, site.client, len(names)),
            valid=lists_of_site(valid, site.client, len(names)),
            test=lists_of_site(test, site.client, len(names)),
            global_test=everything if site.evaluates(schema) else everything[:0],
            names=names,
            class_names=classes.with_own_names([node for flow in flows for node in flow.nodes]).names,
            counted=None if own.counted is None else own.counted.expand(len(names)),
        )
        return _task(settings, schema, federation, FlowInputs(table, dialect))

    def hide_from_sites(self, task: Task, algorithm: Algorithm) -> None:
        """Nothing: clients know only their own flows."""

    def prediction_error(self, name: str) -> str | None:
        """Flows have a command of their own."""
        return f"task {name} {PREDICTION}"


def _words(schema: DataSchema) -> FlowSchema:
    return FlowSchema.from_plain(schema.flows)


def _dialect(schema: DataSchema) -> Dialect:
    name = str((schema.flows or {}).get("dialect"))
    if name not in DIALECTS:
        raise FedloomError(f"the run's flows have the dialect '{name[:60]}', which this fedloom does not know.")
    return DIALECTS[name]


def _label(settings: TaskSettings) -> Label:
    return cast(Label, settings.options.get("label", "kind"))


def _classes(settings: TaskSettings, schema: DataSchema) -> FlowClasses:
    """The classes of the run: its last ones are buckets where kinds are open."""
    return FlowClasses(_label(settings), schema.class_names, _words(schema).node["kind"].buckets)


def _suitable_flows(site: SiteSource, options: Mapping[str, Any], dialect: Dialect) -> tuple[Flow, ...]:
    """The flows of a site's folder that are not too large, as the simulator takes them."""
    flows, its_dialect = read_flows(site.path)
    if its_dialect != dialect:
        raise FedloomError(
            f"{site.path} has flows of the dialect '{its_dialect.name}', but the run is about '{dialect.name}': name "
            "the right folder in [data]."
        )
    largest, least = options.get("largest_flow"), options.get("least_flows", 1)
    kept = tuple(flow for flow in flows if largest is None or len(flow.nodes) <= largest)
    if len(kept) < least:
        size = "" if largest is None else f" of at most {largest} nodes"
        raise FedloomError(f"{site.path} has {len(kept)} flows{size}, but the run needs {least}: add flows.")
    return kept


def _task(settings: TaskSettings, schema: DataSchema, federation: Federation, inputs: FlowInputs) -> Task:
    label, options = _label(settings), settings.model_options
    model = flow_model(_words(schema), schema.classes, label, settings.model, options, settings.seed)
    return Task(settings.name, federation, model, prepare=inputs, fingerprint_tensors=inputs.tensors)
