"""What comes next in a flow under construction, by a personalised model: ranked actions with probabilities.

The question is put to the model as it was trained: the flow as it stands, one more node whose attributes are all
masked, and the edge that leads to it. `FlowTable` and `FlowInputs` make the tokens, here as there. Nothing depends on
the order of a file's nodes but one thing: without ``after``, the next action follows the open end that stands last.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.core.threads import single_thread
from fedloom.models.fullgn import FullGN
from fedloom.tasks.flows.flow import Edge, Flow, Node, brief
from fedloom.tasks.flows.formats.read_flow import read_draft
from fedloom.tasks.flows.learning.data_points import FlowInputs, FlowTable
from fedloom.tasks.flows.learning.flow_schema import UNKNOWN, of_edge, of_flow, of_node
from fedloom.tasks.flows.learning.flow_task import FLOW_TASKS
from fedloom.tasks.flows.learning.saved_flow_model import SavedModel, read_model
from fedloom.tasks.flows.rules import DIALECTS, Dialect, validate_draft


class Suggestion(NamedTuple):
    """A next action and how likely the model thinks it is."""

    kind: str
    probability: float


class Strange(NamedTuple):
    """A word of a flow that a model does not know: whose (``node``, ``edge``, ``flow``), which attribute, the word."""

    element: str
    attribute: str
    word: str


@dataclass(frozen=True)
class Recommender:
    """A model, ready to answer: ``Recommender.load(path).recommend(flow)``."""

    saved: SavedModel

    @staticmethod
    def load(path: str | Path, client: str | None = None) -> Recommender:
        """From an exported model file, or from a run's folder: then ``client`` says whose personalised model."""
        path = Path(path)
        saved = model_of_run(path, client) if path.is_dir() else read_model(path)
        if client is not None and path.is_file() and client != saved.client:
            whose = f"the model of '{brief(saved.client)}'" if saved.client else "a model that all clients share"
            raise FedloomError(f"{path} is {whose} and not of '{client}': leave out the client, or name another file.")
        loaded = Recommender(saved)
        loaded.recommend(Flow((Node("start", saved.dialect.start),), ()))  # torch takes its time with the first answer
        return loaded

    @property
    def dialect(self) -> Dialect:
        """The dialect of the flows that the model knows."""
        return self.saved.dialect

    def read(self, path: str | Path) -> Flow:
        """A flow under construction from a file: of the model's dialect, with its open ends left open."""
        own = None if self.dialect == DIALECTS.get(self.dialect.name) else self.dialect
        reading = read_draft(path, own)
        if reading.dialect.name != self.dialect.name:
            raise FedloomError(
                f"{path} is a flow of the dialect '{reading.dialect.name}', and this model was trained on flows of "
                f"'{self.dialect.name}': ask a model of the flow's own dialect."
            )
        return reading.flow

    def recommend(
        self, flow: Flow, top: int = 5, after: str | None = None, label: str | None = None
    ) -> list[Suggestion]:
        """The likeliest next actions, best first.

        The next action follows the node ``after`` (an id, or a name that only one node has; by default the open end
        that stands last in the flow) by an edge with this ``label`` (by default none, or what plain transitions are
        called in the flow's dialect: ``main`` in n8n).
        """
        if top < 1:
            raise FedloomError(f"top={top}: ask for at least one suggestion.")
        probabilities = self.probabilities(self.ask(flow, after, label))
        best = probabilities.argsort(descending=True, stable=True)[:top].tolist()
        return [Suggestion(self.saved.classes[i], float(probabilities[i])) for i in best]

    def ask(self, flow: Flow, after: str | None = None, label: str | None = None) -> Flow:
        """The flow with the action in question as its last node and the edge to it as its last edge."""
        validate_draft(flow, self.dialect)
        before = _last_open(flow, self.dialect) if after is None else _named(flow, after, self.dialect)
        if label is None:
            label = "" if before.kind == self.dialect.start else self.dialect.plain
        name = "next"
        while any(node.id == name for node in flow.nodes):
            name += "'"
        target = Node(name, "")
        return replace(flow, nodes=(*flow.nodes, target), edges=(*flow.edges, Edge(before.id, target.id, label)))

    @torch.no_grad()
    def probabilities(self, asked: Flow) -> Tensor:
        """How likely each class is for the last node of a flow (see `ask`): they sum to one."""
        with single_thread():  # a flow is too small to share out, and the answer the same on every machine
            logits: Tensor = self.saved.model(self.inputs(asked))
            return logits[0].softmax(0)

    def inputs(self, asked: Flow) -> Tensor:
        """What the model sees of a flow (see `ask`): the same as of a data point whose target is the last node."""
        count = len(asked.nodes)
        table = FlowTable.of([asked], [range(count)], self.saved.schema)
        points, _ = table.points(torch.arange(count) == count - 1)
        return FlowInputs(table)(points)

    def strange(self, asked: Flow) -> list[Strange]:
        """The words of a flow (see `ask`) that the model does not know; it sees all of them as one word."""
        schema = self.saved.schema
        parts = (
            ("node", schema.node, of_node, asked.nodes[:-1]),
            ("edge", schema.edge, of_edge, asked.edges),
            ("flow", schema.graph, of_flow, (asked,)),
        )
        found = [
            Strange(part, name, word)
            for part, vocabularies, read, elements in parts
            for name, vocabulary in vocabularies.items()
            for word in map(read(name), elements)  # type: ignore[arg-type]
            if word and vocabulary.number(word) == UNKNOWN
        ]
        return list(dict.fromkeys(found))


def model_of_run(folder: str | Path, client: str | None = None) -> SavedModel:
    """The model that a client of a run predicts with, as `SavedModel.write` saves it."""
    from fedloom.runs.api import load_config
    from fedloom.runs.client_model import client_model

    name = load_config(Path(folder)).task.name
    if name not in FLOW_TASKS:
        raise FedloomError(f"{folder} is a run of the task {name}, which is not about flows.")
    found = client_model(folder, client)
    return saved_model(found.task, found.row, found.client, found.method)


def saved_model(task: Task, row: Tensor, client: str = "", method: str = "") -> SavedModel:
    """A row of a task on flows, as a model that stands alone."""
    inputs, classes = task.prepare, tuple(getattr(task.federation, "class_names", ()))
    if not isinstance(inputs, FlowInputs) or inputs.dialect is None or not isinstance(task.model, FullGN):
        raise FedloomError(f"task {task.name} has no FullGN that takes flows: nothing can be recommended with it.")
    model = deepcopy(task.model).eval().requires_grad_(False)
    task.layout.fill(model, row)
    return SavedModel(model, inputs.schema, classes, inputs.dialect, client, method, task.name)


def _last_open(flow: Flow, dialect: Dialect) -> Node:
    """The open end that stands last: a node that leads nowhere and is no end."""
    leads = {edge.source for edge in flow.edges}
    for node in reversed(flow.nodes):
        if node.id not in leads and node.kind not in dialect.ends:
            return node
    raise FedloomError(
        "every branch of this flow has reached its end: say with --after (after= in Python) where it goes on."
    )


def _named(flow: Flow, name: str, dialect: Dialect) -> Node:
    """The node with this id, or else the only one with this name."""
    found = [node for node in flow.nodes if node.id == name]
    found = found or [node for node in flow.nodes if node.attributes.get("name") == name]
    if len(found) > 1:
        ids = ", ".join(f"'{brief(node.id)}'" for node in found[:3])
        raise FedloomError(f"{len(found)} nodes of this flow are called '{brief(name)}': use an id, such as {ids}.")
    if not found:
        names = [node.id for node in flow.nodes]
        close = get_close_matches(name, names, n=1, cutoff=0.5)
        meant = f"did you mean '{brief(close[0])}'?" if close else f"the last one is '{brief(names[-1])}'."
        raise FedloomError(f"this flow has no node '{brief(name)}': {meant}")
    if found[0].kind in dialect.ends:
        raise FedloomError(f"'{brief(name)}' is an end of this flow, and nothing follows an end: name another node.")
    return found[0]
