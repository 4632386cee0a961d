"""What an action flow is: actions (nodes) joined by transitions (edges), all described by words.

A flow is a directed graph. Every node has a kind (``If``, ``SendEmail``, ``n8n-nodes-base.httpRequest``), and nodes,
edges and the flow itself may carry further categorical attributes. Which graphs are flows is said in ``rules``;
a `Flow` is only the data, so that a broken one can be looked at too. The document is a thesis on personalised
federated learning for action flows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Node:
    """One action: its name within the flow, its kind, and more about it (subkind, module, operation, ...)."""

    id: str
    kind: str
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Edge:
    """One transition between two actions, named by their ids; the label says which way out it is (``True``)."""

    source: str
    target: str
    label: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Flow:
    """One action flow: nodes and edges in the order of their file, attributes of the whole, and a name."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)
    name: str = ""


def brief(text: str, longest: int = 60) -> str:
    """A text from a file as a person may safely see it: one line, nothing unprintable, not too long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * longest]).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"
