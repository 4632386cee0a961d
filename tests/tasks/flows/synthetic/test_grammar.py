"""The shared grammar: its logits are the sum of its terms."""

from __future__ import annotations

import numpy as np

from fedloom.tasks.flows.platform_kinds import TARGETS
from fedloom.tasks.flows.synthetic.grammar import (
    BRANCHING,
    LABELS,
    NO_ROLE,
    PER_THEME,
    ROLES,
    THEMES,
    TYPES,
    USUAL,
    grammar,
)

END = TARGETS.index("End")


def logits(previous, before, label=0, flow_type=0, length=USUAL):
    return grammar(0).logits(*(np.array([value]) for value in (previous, before, label, flow_type, length)))[0]


def test_logits_are_the_sum_of_the_terms_at_the_usual_length():
    shared = grammar(0)
    assert np.allclose(logits(3, 17, 2, 5), shared.previous[3] + shared.before[17] + shared.label[2] + shared.type[5])


def test_what_is_not_there_says_nothing():
    shared = grammar(0)
    assert np.array_equal(logits(3, NO_ROLE), shared.previous[3] + shared.label[0] + shared.type[0])


def test_a_long_flow_ends_sooner_and_branches_less_and_nothing_else_changes():
    change = logits(3, 17, length=USUAL + 6) - logits(3, 17)
    assert change[END] > 0
    assert (change[BRANCHING] < 0).all()
    others = ~BRANCHING & (np.arange(len(TARGETS)) != END)
    assert np.allclose(change[others], 0)


def test_roles_of_one_theme_are_alike():
    of_roles = grammar(0).previous[:ROLES].reshape(THEMES, PER_THEME, -1)
    within, between = of_roles.var(axis=1, ddof=1).mean(), of_roles.mean(axis=1).var(axis=0, ddof=1).mean()
    assert between > within


def test_a_seed_has_one_grammar_of_its_own():
    assert np.array_equal(grammar(1).previous, grammar(1).previous)
    assert not np.array_equal(grammar(1).previous, grammar(2).previous)
    assert grammar(1).label.shape == (len(LABELS), len(TARGETS))
    assert grammar(1).type.shape == (len(TYPES), len(TARGETS))
