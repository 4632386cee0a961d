"""Recommend the next action of a flow under construction: ranked actions with probabilities.

The model gets the same input as in training: the flow so far, one more node whose attributes are all masked, and the
edge to it, as tokens that `FlowTable` and `FlowInputs` make. The order of a file's nodes matters only if ``after`` is
not given: then the next action follows the last open end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.settings import Count, check_value
from fedloom.tasks.flows.flow import Edge, Flow, Node, brief
from fedloom.tasks.flows.formats.read_flow import read_draft
from fedloom.tasks.flows.learning.data_points import FlowInputs, FlowTable
from fedloom.tasks.flows.learning.flow_schema import UNKNOWN, edge_reader, flow_reader, node_reader
from fedloom.tasks.flows.learning.saved_flow_model import SavedFlowModel, read_flow_model
from fedloom.tasks.flows.rules import DIALECTS, Dialect, validate_draft
from fedloom.training.threads import single_thread


class Suggestion(NamedTuple):
    """A possible next action and its probability."""

    kind: str
    probability: float


class UnknownWord(NamedTuple):
    """A word of a flow that a model does not know, of which element (``node``, ``edge``, ``flow``) and attribute."""

    element: str
    attribute: str
    word: str


@dataclass(frozen=True)
class Recommender:
    """Recommends with a saved model: ``Recommender.load(path).recommend(flow)``.

    Args:
        saved: The model, with the schema of its inputs and its dialect.
    """

    saved: SavedFlowModel

    @staticmethod
    def load(path: str | Path, client: str | None = None) -> Recommender:
        """A recommender from an exported model file.

        Args:
            path: the file that `fedloom flows export` or `SavedFlowModel.write` wrote.
            client: the client whose model it must be; None accepts any.
        """
        path = Path(path)
        if path.is_dir():
            raise FedloomError(
                f"{path} is a folder: Recommender.load reads an exported model. For the model of a run use "
                "Recommender(fedloom.runs.results.client_model.client_standalone_model(folder, client))."
            )
        saved = read_flow_model(path)
        if client is not None and client != saved.client:
            owner = f"the model of '{brief(saved.client)}'" if saved.client else "a model that all clients share"
            raise FedloomError(f"{path} is {owner}, not of '{client}': leave out the client, or choose another file.")
        loaded = Recommender(saved)
        loaded.recommend(Flow((Node("start", saved.dialect.start),), ()))  # torch needs longer for the first answer
        return loaded

    @property
    def dialect(self) -> Dialect:
        """The dialect of the flows that the model was trained on."""
        return self.saved.dialect

    def read(self, path: str | Path) -> Flow:
        """Read a flow under construction from a file; it must have the model's dialect."""
        own = None if self.dialect == DIALECTS.get(self.dialect.name) else self.dialect
        reading = read_draft(path, own)
        if reading.dialect.name != self.dialect.name:
            raise FedloomError(
                f"{path} is a flow of the dialect '{reading.dialect.name}', but this model was trained on flows of "
                f"'{self.dialect.name}': use a model that was trained on the flow's dialect."
            )
        return reading.flow

    def recommend(
        self, flow: Flow, top: int = 5, after: str | None = None, label: str | None = None
    ) -> list[Suggestion]:
        """The most probable next actions, best first.

        Args:
            flow: the flow under construction.
            top: the number of suggestions.
            after: the node that the next action follows, by id or by a name that only one node has; None is the last
                open end of the flow.
            label: the label of the edge to the next action; None is the dialect's plain label (``main`` in n8n, none
                elsewhere).
        """
        check_value("top", top, Count)
        probabilities = self.probabilities(self.question(flow, after, label))
        best = probabilities.argsort(descending=True, stable=True)[:top].tolist()
        return [Suggestion(self.saved.classes[i], float(probabilities[i])) for i in best]

    def question(self, flow: Flow, after: str | None = None, label: str | None = None) -> Flow:
        """The flow with the unknown next action as its last node and the edge to it as its last edge."""
        validate_draft(flow, self.dialect)
        before = _last_open(flow, self.dialect) if after is None else _find_node(flow, after, self.dialect)
        if label is None:
            label = "" if before.kind == self.dialect.start else self.dialect.plain
        name = "next"
        while any(node.id == name for node in flow.nodes):
            name += "'"
        target = Node(name, "")
        return replace(flow, nodes=(*flow.nodes, target), edges=(*flow.edges, Edge(before.id, target.id, label)))

    @torch.no_grad()
    def probabilities(self, question: Flow) -> Tensor:
        """The probability of each class for the last node of a question (see `question`)."""
        with single_thread():  # one flow is too small for more, and the answer must not depend on the machine
            logits: Tensor = self.saved.model(self.inputs(question))
            return logits[0].softmax(0)

    def inputs(self, question: Flow) -> Tensor:
        """The model's input for a question: that of a data point whose target is the last node."""
        count = len(question.nodes)
        table = FlowTable.of([question], [range(count)], self.saved.schema)
        points, _ = table.points(torch.arange(count) == count - 1)
        return FlowInputs(table)(points)

    def unknown_words(self, question: Flow) -> list[UnknownWord]:
        """The words of a question that the model does not know; it treats them all as one word."""
        schema = self.saved.schema
        parts = (
            ("node", schema.node, node_reader, question.nodes[:-1]),
            ("edge", schema.edge, edge_reader, question.edges),
            ("flow", schema.graph, flow_reader, (question,)),
        )
        found = [
            UnknownWord(part, name, word)
            for part, vocabularies, read, elements in parts
            for name, vocabulary in vocabularies.items()
            for word in map(read(name), elements)  # type: ignore[arg-type]
            if word and vocabulary.number(word) == UNKNOWN
        ]
        return list(dict.fromkeys(found))


def _last_open(flow: Flow, dialect: Dialect) -> Node:
    """The last open end: a node that leads nowhere and is not an end."""
    leads = {edge.source for edge in flow.edges}
    for node in reversed(flow.nodes):
        if node.id not in leads and node.kind not in dialect.ends:
            return node
    raise FedloomError(
        "every branch of this flow has reached an end: name the node to continue after with --after (after= in Python)."
    )


def _find_node(flow: Flow, name: str, dialect: Dialect) -> Node:
    """The node with this id, or else the only one with this name."""
    found = [node for node in flow.nodes if node.id == name]
    found = found or [node for node in flow.nodes if node.attributes.get("name") == name]
    if len(found) > 1:
        ids = ", ".join(f"'{brief(node.id)}'" for node in found[:3])
        raise FedloomError(f"{len(found)} nodes of this flow have the name '{brief(name)}': use an id, such as {ids}.")
    if not found:
        names = [node.id for node in flow.nodes]
        close = get_close_matches(name, names, n=1, cutoff=0.5)
        meant = f"did you mean '{brief(close[0])}'?" if close else f"the last one is '{brief(names[-1])}'."
        raise FedloomError(f"this flow has no node '{brief(name)}': {meant}")
    if found[0].kind in dialect.ends:
        raise FedloomError(f"'{brief(name)}' is an end of this flow, and nothing can follow an end: name another node.")
    return found[0]
