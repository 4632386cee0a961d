"""Growing flows: whatever the grammar and the biases, what grows keeps the rules."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.platform_kinds import TARGETS
from fedloom.tasks.flows.rules import PLATFORM, validate
from fedloom.tasks.flows.synthetic.grammar import LABELS, ROLES, TYPES, grammar
from fedloom.tasks.flows.synthetic.growth import MERGE, MOST_NODES, grow

CONDITIONS = [f"Condition {i}" for i in (1, 2, 3)]


def grow_flows(flows, seed=0, spread=0.0, **bias):
    """Flows under a bias of N(0, spread) per kind, plus what is said."""
    random = np.random.default_rng(seed)
    row = random.normal(0, spread, len(TARGETS)) + [bias.get(kind, 0.0) for kind in TARGETS]

    def speak(some):
        return random.integers(0, 150, len(some)), random.integers(0, ROLES, len(some))

    types = random.integers(0, len(TYPES), flows)
    return grow(grammar(seed), np.tile(row, (flows, 1)), types, speak, random)


def as_flow(found, i):
    kinds = ["Start", *(TARGETS[kind] for kind in found.kind[i, 1 : found.count[i]])]
    rows = found.edges[found.edges[:, 0] == i, 1:].tolist()
    return Flow(
        tuple(Node(str(j), kind) for j, kind in enumerate(kinds)),
        tuple(Edge(str(a), str(b), LABELS[label]) for a, b, label in rows),
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 1.0, 3.0]), st.floats(-6, 6), st.floats(-6, 6), st.floats(-6, 6))
def test_every_flow_keeps_the_rules_whatever_the_bias(seed, spread, end, branch, loop):
    found = grow_flows(15, seed, spread, End=end, If=branch, Switch=branch, ForEach=loop)
    assert found.count.max() <= MOST_NODES
    for i in range(15):
        validate(as_flow(found, i), PLATFORM)


def ways_out(found):
    """For every action that has more than one way out: its kind and the labels."""
    labels = defaultdict(list)
    for flow, source, _, label in found.edges.tolist():
        labels[flow, source].append(LABELS[label])
    for (flow, source), some in labels.items():
        yield "Start" if source == 0 else TARGETS[found.kind[flow, source]], some


def test_branching_actions_have_the_ways_out_they_should_have():
    for kind, labels in ways_out(grow_flows(300, End=1.0, Switch=3.0, ForEach=2.0)):
        if kind == "If":
            assert sorted(labels) == ["False", "True"]
        elif kind == "Switch":
            assert sorted(labels) == [*CONDITIONS[: len(labels) - 1], "Otherwise"]
            assert 2 <= len(labels) <= 4
        elif kind == "ForEach":
            assert sorted(labels) == ["Cycle", "Exit"]
        else:
            assert labels == [""]


def test_where_the_body_of_a_loop_ends_it_leads_back():
    found = grow_flows(300, End=1.0, ForEach=3.0)
    back = found.edges[found.edges[:, 2] < found.edges[:, 1]]
    to_loops = found.kind[back[:, 0], back[:, 2]] == TARGETS.index("ForEach")
    assert to_loops.sum() > 100


def test_nearly_three_in_ten_branches_merge():
    found = grow_flows(3_000, End=2.0, If=1.0, ForEach=-99.0, Switch=-99.0, RaiseError=-99.0)
    branches = (found.kind == TARGETS.index("If")).sum()
    merged = len(found.edges) - (found.count - 1).sum()  # every action has one way in, and one more for each merger
    assert 0.6 * MERGE < merged / branches < 1.05 * MERGE  # two ways out of an If cannot both lead to one End


def test_expected_counts_are_the_actual_ones_on_average():
    found = grow_flows(4_000, End=2.5)
    actual = np.stack([(found.kind == kind).sum(1) for kind in range(len(TARGETS))], axis=1)
    gap = actual - found.expected
    error = gap.std(0) / len(gap) ** 0.5
    assert (np.abs(gap.mean(0)) < 4 * error + 1e-9).all()


def test_the_likeliest_kind_always_comes_where_nothing_else_can():
    found = grow_flows(50, End=1_000.0)
    assert (found.count == 2).all()
    assert found.hit[:, 1].all()
    assert Counter(found.kind[:, 1].tolist()) == {TARGETS.index("End"): 50}
