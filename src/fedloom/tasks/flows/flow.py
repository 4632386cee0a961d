"""An action flow: actions (nodes) joined by transitions (edges), all described by words.

A flow is a directed graph. Every node has a kind (``If``, ``SendEmail``, ``n8n-nodes-base.httpRequest``), and nodes,
edges and the flow itself may have further categorical attributes. ``rules`` defines which graphs are valid flows; a
`Flow` holds any data, so that an invalid one can be shown too. The idea is from a thesis on personalised federated
learning for action flows ("the thesis" in these modules).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Node:
    """One action.

    Args:
        id: Its id within the flow.
        kind: What it does (``If``, ``SendEmail``).
        attributes: Further attributes (subkind, module, operation, ...).
    """

    id: str
    kind: str
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Edge:
    """One transition between two actions.

    Args:
        source: The id of the action that it leaves.
        target: The id of the action that it leads to.
        label: The name of the branch (``True``).
        attributes: Further attributes.
    """

    source: str
    target: str
    label: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Flow:
    """One action flow.

    Args:
        nodes: The actions, in the order of their file.
        edges: The transitions, in the order of their file.
        attributes: Attributes of the flow.
        name: The name of the flow.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)
    name: str = ""


def brief(text: str, longest: int = 60) -> str:
    """A text from a file that is safe to print: one line, only printable characters, not too long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * longest]).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"
