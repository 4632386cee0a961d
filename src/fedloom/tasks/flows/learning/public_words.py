"""A vocabulary that organisations agree on without showing their words: the platform's public words, and buckets.

What a platform itself names is public: n8n's own node types, the elements of the BPMN standard, the kinds of the
thesis' platform. Every other word (a community node, an action's name, a branch's label) is put into one of a fixed
number of buckets by a hash, at the organisation that has it. So the tokens of a flow depend on that flow alone, and
nobody needs a list of anybody's words. Two words in one bucket are one word to a model, and buckets of two
organisations have nothing in common but their numbers.

``n8n_words.json`` is made of n8n's public templates (``tests/support/n8n_public_words.py``): the types of n8n's own
packages with the number of their nodes there, and operations, resources and versions that at least three authors use.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.flow import brief
from fedloom.tasks.flows.formats.bpmn import ACTIVITIES, EVENTS, GATEWAYS
from fedloom.tasks.flows.learning.flow_federation import OTHER, FlowClasses, Label, never_targets
from fedloom.tasks.flows.learning.flow_schema import FlowSchema, Vocabularies, Vocabulary
from fedloom.tasks.flows.platform_kinds import KINDS, SUBKINDS
from fedloom.tasks.flows.rules import BPMN, N8N, PLATFORM, Dialect
from fedloom.tasks.flows.synthetic.grammar import LABELS, TYPES
from fedloom.tasks.flows.synthetic.node_attributes import DATA_TYPES, FLAGS, MODULES, PLATFORM_NAMES

BUCKETS = 64
"""The default number of buckets of an attribute."""
CONNECTIONS = (
    "ai_tool", "ai_languageModel", "ai_outputParser", "ai_memory", "ai_embedding", "ai_document", "ai_textSplitter",
    "ai_vectorStore", "ai_reranker", "ai_retriever", "error",
)  # fmt: skip
"""n8n's types of connections beside ``main``."""
OUTPUTS, INPUTS = 16, 10
"""The outputs and inputs of an n8n node that have words of their own."""
EVENT_DEFINITIONS = (
    "message", "timer", "error", "escalation", "cancel", "compensate", "conditional", "link", "signal", "terminate",
    "multiple",
)  # fmt: skip
"""What an event of BPMN waits for or throws; ``multiple`` is several of them."""


@dataclass(frozen=True)
class PublicWords:
    """The attributes of a dialect's nodes, edges and flows with their public words, and how often kinds occur.

    ``open`` are the attributes in which an organisation may have words of its own: these get buckets. A kind without a
    count is one that the dialect defines, however rare it is.
    """

    node: Mapping[str, Collection[str]]
    edge: Mapping[str, Collection[str]]
    graph: Mapping[str, Collection[str]]
    open: frozenset[str]
    counts: Mapping[str, int]


def public_schema(dialect: Dialect, label: Label, buckets: int = BUCKETS) -> FlowSchema:
    """The vocabularies of a dialect: its public words, and buckets for all others.

    Args:
        dialect: The dialect of the flows.
        label: What is predicted; subkinds are attributes of nodes only if they are predicted.
        buckets: How many buckets the private words of an attribute have.
    """
    words = public_words(dialect.name)

    def vocabularies(attributes: Mapping[str, Collection[str]]) -> Vocabularies:
        return {
            name: Vocabulary(tuple(sorted({"", *some})), buckets if name in words.open else 0)
            for name, some in attributes.items()
            if name != "subkind" or label == "subkind"
        }

    return FlowSchema(vocabularies(words.node), vocabularies(words.edge), vocabularies(words.graph))


def public_classes(dialect: Dialect, label: Label, least_count: int = 1, buckets: int = BUCKETS) -> FlowClasses:
    """The classes of a dialect: its public kinds or subkinds, and buckets for all others where kinds are open.

    Args:
        dialect: The dialect of the flows.
        label: What is predicted of an action.
        least_count: Kinds with fewer nodes in the public flows are in buckets too, if the dialect has counts.
        buckets: How many buckets private and rare kinds have.
    """
    if dialect == PLATFORM:
        return FlowClasses(label, (*(KINDS if label == "kind" else SUBKINDS), "unknown"))
    words, never = public_words(dialect.name), never_targets(dialect)
    often = sorted(kind for kind in words.node["kind"] if words.counts.get(kind, least_count) >= least_count)
    names = [kind for kind in often if kind not in never]
    if "kind" not in words.open:
        return FlowClasses(label, (*names, OTHER))
    return FlowClasses(label, (*names, *(f"bucket {number + 1}" for number in range(buckets))), buckets)


@cache
def public_words(dialect: str) -> PublicWords:
    """The public words of a dialect.

    Args:
        dialect: The name of a dialect that Fedloom knows.
    """
    makers = {PLATFORM.name: _platform, N8N.name: _n8n, BPMN.name: _bpmn}
    if dialect not in makers:
        raise FedloomError(
            f"the dialect '{brief(dialect)}' has no list of public words: choose vocabulary = \"pooled\", or flows of "
            f"{', '.join(makers)}."
        )
    return makers[dialect]()


def _n8n() -> PublicWords:
    words = json.loads(files(__package__).joinpath("n8n_words.json").read_bytes())
    ways = [kind if not output else f"{kind} {output}" for kind in ("main", *CONNECTIONS) for output in range(OUTPUTS)]
    node = {"kind": ("Start", *words["kind"]), "version": words["version"], "operation": words["operation"]}
    node |= {"resource": words["resource"], "disabled": ("yes",)}
    edge = {"label": (*ways, "main+main 1"), "input": [str(number) for number in range(1, INPUTS)]}
    open_ = frozenset({"kind", "operation", "resource"})
    return PublicWords(node, edge, {"category": words["category"]}, open_, words["kind"])


def _bpmn() -> PublicWords:
    events = [*EVENTS, *(f"{event}:{what}" for event in EVENTS for what in EVENT_DEFINITIONS)]
    kinds = ("Start", "End", *events, *ACTIVITIES, *GATEWAYS)
    node: dict[str, Collection[str]] = {"kind": kinds, "name": (), "pool": (), "type": events}
    edge = {"label": ("message", "association", "boundary", "inside", "default")}
    return PublicWords(node, edge, {"flow": ()}, frozenset({"name", "pool", "label"}), {})


def _platform() -> PublicWords:
    node: dict[str, Collection[str]] = {
        "kind": KINDS, "flags": FLAGS, "module": MODULES, "name": PLATFORM_NAMES, "subkind": SUBKINDS,
        "type": DATA_TYPES,
    }  # fmt: skip
    graph = {"platform": ("web", "mobile"), "type": TYPES}
    return PublicWords(node, {"label": LABELS}, graph, frozenset({"label", "module", "name"}), {})
