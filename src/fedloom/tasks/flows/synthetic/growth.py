"""How flows of the synthetic corpus grow: from the start, depth first, a whole chunk of flows at a time.

Each step takes the newest open branch of every unfinished flow and draws the next action there (see ``grammar``).
``If`` and ``Switch`` open branches. Three in ten branches try to merge: they draw their next kinds like any other, and
if a sibling has an action of the drawn kind, they lead there (two in ten do). ``ForEach`` opens a body and an exit;
where the body would end, it leads back to the ``ForEach``. So every flow keeps the rules by construction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedloom.tasks.flows.platform_kinds import TARGETS
from fedloom.tasks.flows.synthetic.grammar import BRANCHING, LABELS, NO_ROLE, TERMINAL, Array, Grammar

MERGE = 0.3
MOST_NODES, MOST_BRANCHES = 60, 20
"""The most actions of a flow, and the most branches that are open at a time."""

_START = -1  # the start's number among the kinds: it is never drawn
_OUTSIDE = -1  # the loop of what is in no loop
_SO_FAR = -1  # the end of a range of siblings that still grows
_END, _IF, _SWITCH, _FOREACH = (TARGETS.index(kind) for kind in ("End", "If", "Switch", "ForEach"))
_NEXT, _TRUE, _FALSE, _CONDITION, _OTHERWISE, _CYCLE, _EXIT = map(
    LABELS.index, ("", "True", "False", "Condition 1", "Otherwise", "Cycle", "Exit")
)

NameActions = Callable[[Array], tuple[Array, Array]]
"""Names new actions, one in each of the given flows: their tokens, and the roles of these tokens there."""


@dataclass(frozen=True)
class GrownFlows:
    """Flows as arrays: one row per flow, one column per action in the order of growth; the start is column 0.

    ``kind`` counts in `TARGETS`, ``parent`` is the action it grew from, and ``hit`` says whether the drawn kind was the
    most probable. ``edges`` has the rows (flow, source, target, label), by flow. ``expected`` is the expected number of
    actions of each kind in a flow, by the probabilities of its draws.
    """

    count: Array
    kind: Array
    token: Array
    role: Array
    parent: Array
    hit: Array
    edges: Array
    expected: Array


@dataclass(frozen=True)
class _Branches:
    """Open branches, one per flow: source action, label, loop, and the range of siblings to merge with."""

    flow: Array
    source: Array
    label: Array
    loop: Array
    first: Array
    last: Array

    @property
    def merging(self) -> Array:
        return self.last > self.first


def grow(
    shared: Grammar, bias: Array, types: Array, name_actions: NameActions, random: np.random.Generator
) -> GrownFlows:
    """Grow one flow per row of ``bias`` (its organisation's) and of ``types`` (the flow's)."""
    flows = _GrowingFlows(len(types), name_actions)
    edges = []
    while (at := flows.pop()).flow.size:
        chances = _chances(shared, bias, types, flows, at)
        drawn = (chances.cumsum(1) < random.random(len(chances))[:, None]).sum(1).clip(max=len(TARGETS) - 1)
        looping = at.loop != _OUTSIDE
        chances[looping, _END] = 0.0  # an end in a loop's body is a way back, not an action
        back = looping & (drawn == _END)
        joins, sibling = flows.siblings_to_join(at, drawn)
        joins &= ~back
        new = ~back & ~joins
        target = np.where(back, at.loop, np.where(joins, sibling, flows.count[at.flow]))
        edges.append(np.stack([at.flow, at.source, target, at.label], axis=1))
        flows.add_edges(at, target)
        flows.expected[at.flow[~at.merging]] += chances[~at.merging]
        np.add.at(flows.expected, (at.flow[at.merging & new], drawn[at.merging & new]), 1.0)
        flows.add_actions(_Branches(*(column[new] for column in at.__dict__.values())), drawn[new], random)
        flows.hit[at.flow[new], target[new]] = chances[new].argmax(1) == drawn[new]
    rows = np.concatenate(edges)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    return GrownFlows(flows.count, flows.kind, flows.token, flows.role, flows.parent, flows.hit, rows, flows.expected)


def _chances(shared: Grammar, bias: Array, types: Array, flows: _GrowingFlows, at: _Branches) -> Array:
    """The probability of every kind at these branches; a kind without room, or that would break a rule, has none."""
    flow, source = at.flow, at.source
    before = np.where(source > 0, flows.role[flow, flows.parent[flow, source]], NO_ROLE)
    scores = shared.logits(flows.role[flow, source], before, at.label, types[flow], flows.count[flow]) + bias[flow]
    self_loop = source == at.loop
    parallel = _bit(flows.leads_to[flow, source], at.loop.clip(min=0))
    scores[(at.loop != _OUTSIDE) & (self_loop | parallel), _END] = -np.inf
    room = MOST_NODES - flows.count[flow] - flows.open[flow]
    scores[np.ix_((room < 5) | (flows.open[flow] + 4 > MOST_BRANCHES), BRANCHING)] = -np.inf
    scores[np.ix_(room < 2, ~TERMINAL)] = -np.inf
    chances: Array = np.exp(scores - scores.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    return chances


def _bit(bits: Array, place: Array) -> Array:
    found: Array = (np.right_shift(bits, place) & 1).astype(bool)
    return found


class _GrowingFlows:
    """Growing flows: their actions, as in `GrownFlows`, and a stack of open branches per flow."""

    def __init__(self, count: int, name_actions: NameActions) -> None:
        shape = (count, MOST_NODES)
        self.name_actions = name_actions
        self.count, self.open = np.ones(count, np.int64), np.ones(count, np.int64)
        self.kind, self.loop = np.full(shape, _START, np.int16), np.full(shape, _OUTSIDE, np.int16)
        self.token, self.role, self.parent = (np.zeros(shape, np.int16) for _ in range(3))
        self.hit, self.leads_to = np.zeros(shape, bool), np.zeros(shape, np.int64)
        self.expected = np.zeros((count, len(TARGETS)))
        self.branches = np.zeros((count, MOST_BRANCHES, 5), np.int64)
        self.branches[:, 0, 2] = _OUTSIDE
        self.token[:, 0], self.role[:, 0] = name_actions(np.arange(count))

    def pop(self) -> _Branches:
        """Take the newest branch of each unfinished flow; it may merge with what its siblings have grown so far."""
        flow = np.flatnonzero(self.open)
        self.open[flow] -= 1
        source, label, loop, first, last = self.branches[flow, self.open[flow]].T
        return _Branches(flow, source, label, loop, first, np.where(last == _SO_FAR, self.count[flow], last))

    def siblings_to_join(self, at: _Branches, drawn: Array) -> tuple[Array, Array]:
        """Which branches merge, and with which action: the sibling's first of the drawn kind, in the same loop.

        A sibling is finished before the next branch grows, so merging creates no cycle.
        """
        joins, sibling = np.zeros(len(drawn), bool), np.zeros(len(drawn), np.int64)
        rows = np.flatnonzero(at.merging)
        flow, places = at.flow[rows], np.arange(MOST_NODES)
        fits = (self.kind[flow] == drawn[rows, None]) & (self.loop[flow] == at.loop[rows, None])
        fits &= (places >= at.first[rows, None]) & (places < at.last[rows, None])
        fits &= ~_bit(self.leads_to[flow, at.source[rows]][:, None], places)
        joins[rows], sibling[rows] = fits.any(1), fits.argmax(1)
        return joins, sibling

    def add_edges(self, at: _Branches, target: Array) -> None:
        """Record the targets of these branches."""
        self.leads_to[at.flow, at.source] |= np.left_shift(1, target)

    def add_actions(self, at: _Branches, kind: Array, random: np.random.Generator) -> None:
        """Add an action to each of these branches and open its own branches.

        The first of them keeps what its action was merging with; others may merge with those before them.
        """
        flow = at.flow
        new = self.count[flow]
        self.kind[flow, new], self.parent[flow, new], self.loop[flow, new] = kind, at.source, at.loop
        self.token[flow, new], self.role[flow, new] = self.name_actions(flow)
        self.count[flow] += 1
        merges = random.random((3, len(flow))) < MERGE
        ways = random.integers(2, 5, len(flow))

        def push(which: Array, label: int, loop: Array, first: Array, last: Array) -> None:
            if not which.any():
                return
            to = flow[which]
            columns = (new, np.full_like(new, label), loop, first, last)
            self.branches[to, self.open[to]] = np.stack([column[which] for column in columns], axis=1)
            self.open[to] += 1

        def push_branch(which: Array, label: int, merging: Array) -> None:
            push(which, label, at.loop, np.where(merging, new + 1, 0), np.where(merging, _SO_FAR, 0))

        none = np.zeros_like(new)
        push(~TERMINAL[kind] & ~BRANCHING[kind], _NEXT, at.loop, at.first, at.last)
        push_branch(kind == _IF, _FALSE, merges[0])
        push(kind == _IF, _TRUE, at.loop, at.first, at.last)
        push_branch(kind == _SWITCH, _OTHERWISE, merges[0])
        push_branch((kind == _SWITCH) & (ways == 4), _CONDITION + 2, merges[1])
        push_branch((kind == _SWITCH) & (ways >= 3), _CONDITION + 1, merges[2])
        push(kind == _SWITCH, _CONDITION, at.loop, at.first, at.last)
        push(kind == _FOREACH, _EXIT, at.loop, at.first, at.last)
        push(kind == _FOREACH, _CYCLE, new, none, none)
