"""How far across the places of a layered picture are, so that long edges and chains of nodes run straight down.

Every place is aligned with a median neighbour, where no other alignment is crossed by that; what is aligned is a block
that moves as one, and blocks are pushed together. Done four times, from above and below, from the left and the right,
and the four answers are averaged.

Brandes and Köpf, Fast and Simple Horizontal Coordinate Assignment, Graph Drawing 2001; the compaction is a longest
path between blocks, as in dagre, instead of the paper's classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

Rows = Sequence[Sequence[int]]
Beside = Sequence[Sequence[int]]


def aligned(rows: Rows, above: Beside, below: Beside, room: Sequence[float], nodes: int) -> list[float]:
    """How far across every place in ``rows`` is, each with its ``room``; those from ``nodes`` on are of long edges."""
    crossed = _crossed(rows, below, nodes)
    found = []
    for downwards in (True, False):
        for rightwards in (True, False):
            turned = [
                list(row) if rightwards else list(reversed(row)) for row in (rows if downwards else reversed(rows))
            ]
            block = _blocks(turned, above if downwards else below, crossed, len(room))
            across = _pushed(turned, block, room)
            found.append(across if rightwards else [-x for x in across])
    return _averaged(found, room)


def _crossed(rows: Rows, below: Beside, nodes: int) -> set[tuple[int, int]]:
    """Pieces of edges that cross a piece of a long edge: they must not be straight, so that the long edge can be."""
    crossed = set()
    for upper, lower in pairwise(rows):
        place = {node: i for i, node in enumerate(lower)}
        pieces = [(i, place[b], a, b) for i, a in enumerate(upper) for b in below[a]]
        inner = [(i, j) for i, j, a, b in pieces if a >= nodes and b >= nodes]
        for i, j, a, b in pieces:
            if (a < nodes or b < nodes) and any((i - k) * (j - m) < 0 for k, m in inner):
                crossed |= {(a, b), (b, a)}
    return crossed


def _blocks(rows: Rows, beside: Beside, crossed: set[tuple[int, int]], count: int) -> list[int]:
    """The block of every place, named by its first: from row to row along the medians that no alignment crosses."""
    block = list(range(count))
    taken: set[int] = set()
    for before, row in pairwise(rows):
        place = {node: i for i, node in enumerate(before)}
        last = -1
        for node in row:
            near = sorted((other for other in beside[node]), key=place.__getitem__)
            if not near:
                continue
            for median in sorted({(len(near) - 1) // 2, len(near) // 2}):
                other = near[median]
                if other not in taken and (node, other) not in crossed and place[other] > last:
                    block[node] = block[other]
                    taken.add(other)
                    last = place[other]
                    break
    return block


def _pushed(rows: Rows, block: Sequence[int], room: Sequence[float]) -> list[float]:
    """Blocks as far left as they can be, then those with space to their right as near to the next as they can be."""
    after: dict[int, dict[int, float]] = {block[node]: {} for row in rows for node in row}
    waiting = dict.fromkeys(after, 0)
    for row in rows:
        for a, b in pairwise(row):
            gap = (room[a] + room[b]) / 2
            if block[b] not in after[block[a]]:
                waiting[block[b]] += 1
            after[block[a]][block[b]] = max(gap, after[block[a]].get(block[b], 0.0))
    across = dict.fromkeys(after, 0.0)
    order = [name for name, before in waiting.items() if not before]
    for name in order:
        for other, gap in after[name].items():
            across[other] = max(across[other], across[name] + gap)
            waiting[other] -= 1
            if not waiting[other]:
                order.append(other)
    for name in reversed(order):
        if after[name]:
            across[name] = max(across[name], min(across[other] - gap for other, gap in after[name].items()))
    return [across[name] for name in block]


def _averaged(found: Sequence[list[float]], room: Sequence[float]) -> list[float]:
    """The four answers laid over the narrowest of them (right ones by their right side), and the middle two's mean."""
    spans = [
        (min(x - r / 2 for x, r in zip(xs, room, strict=True)), max(x + r / 2 for x, r in zip(xs, room, strict=True)))
        for xs in found
    ]
    narrow = min(spans, key=lambda span: span[1] - span[0])
    moved = []
    for number, (xs, span) in enumerate(zip(found, spans, strict=True)):
        shift = narrow[0] - span[0] if number % 2 == 0 else narrow[1] - span[1]
        moved.append([x + shift for x in xs])
    middle = [sum(sorted(four)[1:3]) / 2 for four in zip(*moved, strict=True)]
    left = min((x - r / 2 for x, r in zip(middle, room, strict=True)), default=0.0)
    return [x - left for x in middle]
