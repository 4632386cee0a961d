"""A claim about methods that stay at chance is not testable; one about methods that have learnt is decided as usual."""

from __future__ import annotations

import pytest

from fedloom.reproduce.testability import claim_above, has_learnt

CHANCE = (0.10, 0.10, 0.10)
AT_CHANCE, LEARNT, BETTER = (0.11, 0.09, 0.10), (0.40, 0.41, 0.39), (0.50, 0.51, 0.49)


def test_a_method_has_learnt_if_it_is_told_apart_from_its_baseline() -> None:
    assert has_learnt(LEARNT, CHANCE)
    assert not has_learnt(AT_CHANCE, CHANCE)
    assert not has_learnt(CHANCE, LEARNT)


@pytest.mark.parametrize(("one", "other", "holds"), [(BETTER, LEARNT, True), (AT_CHANCE, LEARNT, False)])
def test_a_claim_is_tested_where_one_method_has_learnt(one, other, holds) -> None:
    assert claim_above("A is above B.", one, other, CHANCE).holds is holds


def test_two_methods_at_chance_say_nothing_and_the_reason_is_named() -> None:
    found = claim_above("A is above B.", AT_CHANCE, CHANCE, CHANCE)
    assert found.holds is None
    assert found.ours == (
        "not testable here: 10.0 ± 1.0 and 10.0 ± 0.0, and neither is told apart from its baseline (10.0 ± 0.0)."
    )


def test_clients_with_other_data_have_a_baseline_of_their_own() -> None:
    """Where each client has one class, always answering it is as good."""
    found = claim_above("Skewed clients are better.", BETTER, AT_CHANCE, BETTER, CHANCE)
    assert found.holds is None
    assert found.ours.endswith("(50.0 ± 1.0 and 10.0 ± 0.0).")
