"""Flows that are copies of each other, in any order of their nodes: a copy of a trained flow tests nothing.

Two flows have the same number if a few rounds of colour refinement do not tell them apart: nodes start with their kind
and attributes, and then take the colours of their neighbours into account. Names and attributes of the flow itself,
such as the number of a template, make no difference. Most flows differ in their nodes alone, and are not refined.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from fedloom.tasks.flows.flow import Flow

REFINEMENTS = 3


def duplicate_numbers(flows: Sequence[Flow]) -> np.ndarray:
    """A number per flow, the same for flows that are copies of each other; in the order of their first occurrence."""
    colours: dict[Hashable, int] = {}

    def colour(what: Hashable) -> int:
        return colours.setdefault(what, len(colours))

    first = [
        {node.id: colour((node.kind, frozenset(node.attributes.items()))) for node in flow.nodes} for flow in flows
    ]
    coarse = [(tuple(sorted(of.values())), len(flow.edges)) for flow, of in zip(flows, first, strict=True)]
    times = Counter(coarse)
    numbers: dict[Hashable, int] = {}
    keys: list[Hashable] = []
    for flow, of, key in zip(flows, first, coarse, strict=True):
        keys.append(key if times[key] == 1 else _refined_colours(flow, of, colours))
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _refined_colours(flow: Flow, of: Mapping[str, int], colours: dict[Hashable, int]) -> tuple[int, ...]:
    """The sorted colours of a flow's nodes after refinement."""
    for _ in range(REFINEMENTS):
        ways: dict[str, list[tuple[int, str, frozenset[tuple[str, str]], int]]] = defaultdict(list)
        for edge in flow.edges:
            about = frozenset(edge.attributes.items())
            ways[edge.source].append((0, edge.label, about, of[edge.target]))
            ways[edge.target].append((1, edge.label, about, of[edge.source]))
        seen = {name: (mine, frozenset(Counter(ways[name]).items())) for name, mine in of.items()}
        of = {name: colours.setdefault(what, len(colours)) for name, what in seen.items()}
    return tuple(sorted(of.values()))
