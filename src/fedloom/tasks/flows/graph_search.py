"""Search in graphs without recursion, so that no flow is too deep.

``after`` maps a node to the nodes it leads to: a mapping by id, or a list by number. ``seen`` holds the nodes that were
visited before and is extended.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol, TypeVar

NodeT = TypeVar("NodeT", bound=Hashable)


class Successors(Protocol[NodeT]):
    """Maps a node to the nodes it leads to."""

    def __getitem__(self, node: NodeT, /) -> Sequence[NodeT]: ...


def reach(roots: Iterable[NodeT], after: Successors[NodeT], seen: set[NodeT]) -> list[NodeT]:
    """Visit everything that the roots lead to; return the nodes that were new."""
    new: list[NodeT] = []
    todo = list(roots)
    while todo:
        for node in after[todo.pop()]:
            if node not in seen:
                seen.add(node)
                new.append(node)
                todo.append(node)
    return new


def finish_order(roots: Iterable[NodeT], after: Successors[NodeT], seen: set[NodeT]) -> list[NodeT]:
    """Visit the roots and all they lead to depth first; return the new nodes in the order they are finished."""
    finished: list[NodeT] = []
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        path = [(root, iter(after[root]))]
        while path:
            for node in path[-1][1]:
                if node not in seen:
                    seen.add(node)
                    path.append((node, iter(after[node])))
                    break
            else:
                finished.append(path.pop()[0])
    return finished
