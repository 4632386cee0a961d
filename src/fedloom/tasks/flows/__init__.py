"""Action flows: their rules, file formats, synthetic corpora, drawings, and models that predict the next action."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fedloom.tasks.flows.corpus import Corpus, Organisation
from fedloom.tasks.flows.drawing.outline import outline
from fedloom.tasks.flows.drawing.picture import draw_flow
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.formats.flow_json import to_json, write_flow
from fedloom.tasks.flows.formats.read_flow import read, read_draft, read_flow
from fedloom.tasks.flows.formats.start_and_ends import Reading
from fedloom.tasks.flows.rules import BPMN, DIALECTS, N8N, PLATFORM, RULES, Dialect, validate, validate_draft

if TYPE_CHECKING:  # the names of _LATER, for type checkers and editors
    from fedloom.tasks.flows.formats.packed_corpus import read_packed, write_packed
    from fedloom.tasks.flows.formats.read_corpus import read_corpus
    from fedloom.tasks.flows.formats.real_corpora import read_bpmn, read_n8n
    from fedloom.tasks.flows.learning.recommender import Recommender, Suggestion

_LATER = {
    "fedloom.tasks.flows.formats.read_corpus": ("read_corpus",),
    "fedloom.tasks.flows.formats.real_corpora": ("read_bpmn", "read_n8n"),
    "fedloom.tasks.flows.formats.packed_corpus": ("read_packed", "write_packed"),
    "fedloom.tasks.flows.learning.recommender": ("Recommender", "Suggestion"),
}
_HOME = {name: module for module, names in _LATER.items() for name in names}
__all__ = [
    "BPMN",
    "DIALECTS",
    "N8N",
    "PLATFORM",
    "RULES",
    "Corpus",
    "Dialect",
    "Edge",
    "Flow",
    "Node",
    "Organisation",
    "Reading",
    "Recommender",
    "Suggestion",
    "draw_flow",
    "outline",
    "read",
    "read_bpmn",
    "read_corpus",
    "read_draft",
    "read_flow",
    "read_n8n",
    "read_packed",
    "to_json",
    "validate",
    "validate_draft",
    "write_flow",
    "write_packed",
]


def __getattr__(name: str) -> Any:
    """Import what needs numpy or torch at first use, so that reading and showing a flow starts fast."""
    if name not in _HOME:
        raise AttributeError(f"module 'fedloom.tasks.flows' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)
