"""The synthetic corpus: its flows keep the rules, its numbers are the document's, and names mean what they should."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedloom.tasks.flows.platform_kinds import KINDS, NEVER_TARGETS, SUBKINDS, TARGETS, kind_of
from fedloom.tasks.flows.rules import PLATFORM, validate
from fedloom.tasks.flows.synthetic.client_sizes import SIZES, group, scaled_size
from fedloom.tasks.flows.synthetic.generator import EXTRA_POINTS, ceiling, generate

LARGEST = 1_000


@pytest.fixture(scope="module")
def corpus():
    return generate(33, LARGEST, seed=0)


def targets(flows):
    return [node for flow in flows for node in flow.nodes if node.kind not in NEVER_TARGETS]


def shares(corpus):
    """Percent of every kind (columns) in every organisation (rows)."""
    rows = []
    for held in corpus.organisations:
        counts = Counter(node.kind for node in targets((*held.flows, *held.extra)))
        rows.append([100 * counts[kind] / counts.total() for kind in TARGETS])
    return np.array(rows)


@pytest.mark.slow
def test_a_thousand_flows_keep_the_rules(corpus):
    flows = [flow for held in corpus.organisations for flow in (*held.flows, *held.extra)]
    assert len(flows) >= 1_000
    for flow in flows:
        validate(flow, PLATFORM)


@pytest.mark.slow
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**31))
def test_flows_of_any_seed_keep_the_rules(seed):
    for held in generate(3, 300, seed).organisations:
        for flow in (*held.flows, *held.extra):
            validate(flow, PLATFORM)


def test_organisations_hold_exactly_the_points_of_their_size(corpus):
    held = [len(targets(one.flows)) for one in corpus.organisations]
    assert held == [scaled_size(size, LARGEST) for size in SIZES]


@pytest.mark.slow
def test_small_organisations_and_no_others_have_extra_test_points(corpus):
    for size, held in zip(SIZES, corpus.organisations, strict=True):
        assert len(targets(held.extra)) >= (EXTRA_POINTS if group(size) == "small" else 0)
        assert bool(held.extra) == (group(size) == "small")


def test_flows_have_between_5_7_and_7_8_points(corpus):
    flows = [flow for held in corpus.organisations for flow in held.flows]
    assert 5.7 < len(targets(flows)) / len(flows) < 7.8


def test_kinds_are_as_frequent_as_in_table_b1(corpus):
    found = shares(corpus)
    assert found.mean(0) == pytest.approx([KINDS[kind].mean for kind in TARGETS], abs=1.0)
    common = [i for i, kind in enumerate(TARGETS) if KINDS[kind].mean > 2]
    ratio = found.std(0, ddof=1)[common] / [KINDS[TARGETS[i]].std for i in common]
    assert ratio.min() > 0.6
    assert ratio.max() < 1.7


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_at_the_usual_scale_kinds_are_as_frequent_as_in_table_b1(seed):
    corpus = generate(seed=seed)
    assert shares(corpus).mean(0) == pytest.approx([KINDS[kind].mean for kind in TARGETS], abs=1.0)
    flows = [flow for held in corpus.organisations for flow in held.flows]
    assert 5.7 < len(targets(flows)) / len(flows) < 7.8


def test_every_action_is_described_by_words_that_the_tables_know(corpus):
    for node in targets(corpus.organisations[-1].flows):
        assert SUBKINDS[node.attributes["subkind"]].mean > 0
        assert kind_of(node.attributes["subkind"]) == node.kind
        assert ("name" in node.attributes) == (node.kind != "End")


@pytest.mark.slow
def test_an_organisation_is_the_same_in_whatever_company(corpus):
    few = generate(3, LARGEST, seed=0)
    known = {held.name: held for held in corpus.organisations}
    assert [held.name for held in few.organisations] == ["organisation-01", "organisation-17", "organisation-33"]
    assert all(held == known[held.name] for held in few.organisations)


def test_the_same_seed_gives_the_same_flows_and_another_seed_others(corpus):
    from fedloom.tasks.flows.synthetic.styles import styles

    styles.cache_clear()
    again = generate(2, LARGEST, seed=0)
    assert again.organisations[0] == corpus.organisations[0]
    assert generate(2, LARGEST, seed=1).organisations[0].flows != corpus.organisations[0].flows


def test_knowing_all_roles_is_far_better_than_the_most_frequent_kind(corpus):
    for place in (0, 16, 32):
        best = ceiling(place, LARGEST)
        assert 0.6 < best < 0.78
        assert best > shares(corpus)[place].max() / 100 + 0.3


def habits(flows):
    """What follows a name: (whether the name is private, the name, the kind of the next action)."""
    for flow in flows:
        nodes = {node.id: node for node in flow.nodes}
        for edge in flow.edges:
            name = nodes[edge.source].attributes["name"]
            yield "." not in name, name, nodes[edge.target].kind


def accuracy(train, test, private):
    """Of who predicts what most often followed a name, over private names or the platform's."""
    seen = defaultdict(Counter)
    for _, name, kind in train:
        seen[name][kind] += 1
    asked = [(name, kind) for found, name, kind in test if found == private]
    return np.mean([name in seen and seen[name].most_common(1)[0][0] == kind for name, kind in asked])


def test_private_names_are_best_learnt_at_home(corpus):
    big = [held.flows for size, held in zip(SIZES, corpus.organisations, strict=True) if group(size) == "big"]
    halves = [(list(habits(flows[::2])), list(habits(flows[1::2]))) for flows in big]
    pooled = [habit for train, _ in halves for habit in train]
    own = np.mean([accuracy(train, test, private=True) for train, test in halves])
    assert own > np.mean([accuracy(pooled, test, private=True) for _, test in halves]) + 0.05


def test_small_organisations_learn_platform_names_from_everybody(corpus):
    small = [held for size, held in zip(SIZES, corpus.organisations, strict=True) if group(size) == "small"]
    pooled = [habit for held in corpus.organisations for habit in habits(held.flows)]
    own = np.mean([accuracy(habits(held.flows), habits(held.extra), private=False) for held in small])
    assert np.mean([accuracy(pooled, habits(held.extra), private=False) for held in small]) > own + 0.1
