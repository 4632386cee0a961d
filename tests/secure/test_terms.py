"""The terms of a secure sum."""

from dataclasses import replace

import pytest

from fedloom.core.errors import FedloomError
from fedloom.secure.sum_step import RefusedMessage
from fedloom.secure.terms import SumTerms

TERMS = SumTerms("a run", 1, (2, 5, 9), 0.34)


def test_terms_say_threshold_quorum_and_neighbours():
    assert (TERMS.threshold, TERMS.quorum, TERMS.neighbours(5)) == (2, 2, (2, 9))
    with pytest.raises(RefusedMessage, match="client 3 was not invited"):
        TERMS.neighbours(3)


@pytest.mark.parametrize(
    "other",
    [{"run": "b"}, {"round": 2}, {"invited": (2, 5, 8)}, {"dropouts": 0.0}, {"attempt": 1}],
)
def test_every_term_counts_in_what_keys_are_bound_to(other):
    assert replace(TERMS, **other).about != TERMS.about
    assert replace(TERMS).about == TERMS.about


@pytest.mark.parametrize(
    "wrong", [{"invited": (5, 2, 9)}, {"invited": (2, 2, 9)}, {"invited": (-1, 2, 9)}, {"round": -1}, {"attempt": -1}]
)
def test_terms_that_mean_nothing_are_refused(wrong):
    with pytest.raises(FedloomError):
        replace(TERMS, **wrong)


def test_colluders_count_too():
    many = SumTerms("a run", 1, tuple(range(9)), 0.2)
    assert replace(many, colluders=0.2).about != many.about
