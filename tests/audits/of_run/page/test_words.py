"""The numbers of an audit as text: each with its spread over seeds, its interval, or that it is of one seed."""

from __future__ import annotations

import pytest

from fedloom.audits.of_run.conclude import ADDED
from fedloom.audits.of_run.page.words import brief, cost_text, number_text, score_text, verdict_text
from fedloom.audits.of_run.result import Audit, Finding, Number


def finding(measure, number, unit="share", words="of something", **more):
    return Finding(
        *("probe", "leak", "Somebody", "does it", "as configured", "measured", "", measure, words, unit),
        numbers={measure: number, **more},
        seeds=1,
    )


@pytest.mark.parametrize(
    ("number", "unit", "said"),
    [
        (Number(0.4), "share", "40.0 % (one seed)"),
        (Number(0.4, 0.02), "share", "40.0 ± 2.0 %"),
        (Number(0.4, None, 0.3, 0.5), "share", "40.0 % (30–50)"),
        (Number(0.57), "auc", "0.57 (one seed)"),
        (Number(0.57, None, 0.51, 0.63), "auc", "0.57 (0.51–0.63)"),
        (Number(1.2, None, 1.2, None), "epsilon", "≥ 1.2"),
    ],
)
def test_no_number_of_one_seed_stands_bare(number, unit, said):
    assert number_text(finding("m", number, unit)) == said


def test_a_score_of_one_seed_says_so():
    audit = Audit("digits", "fedavg", 6, 5, 5, 0, 1.0, "accuracy", True, True, (), (), {})
    assert score_text(audit, Number(0.873)) == "87.3 % (one seed)"
    assert score_text(audit, Number(0.873, 0.01)) == "87.3 ± 1.0 %"


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (finding("rebuilt", Number(0.404)), "40 % of samples rebuilt"),
        (finding("auc", Number(0.57), "auc"), "57 of 100 pairs told apart, where guessing does 50"),
        (finding("gained", Number(0.04), lost=Number(0.75)), "75 % of the score lost"),
        (finding("lost", Number(0.5), words=ADDED), "50 % added to the error"),
        (finding("own", Number(0.5)), "50 %"),
    ],
)
def test_a_number_says_in_a_sentence_what_it_is_of(one, said):
    assert brief(one) == said


def error_audit():
    return Audit("own", "fedavg", 6, 5, 5, 0, 1.0, "MAE", False, False, (), (), {})


def test_of_an_error_it_is_said_which_change_is_the_better_one():
    worse = cost_text(error_audit(), Number(52.0), Number(64.9))
    assert verdict_text(error_audit(), worse) == "the model's MAE (an error: less is better) changes by +12.9"
    shares = Audit("digits", "fedavg", 6, 5, 5, 0, 1.0, "accuracy", True, True, (), (), {})
    assert "less is better" not in verdict_text(shares, cost_text(shares, Number(0.9), Number(0.8)))


def test_a_change_that_the_scores_do_not_show_is_none():
    assert cost_text(error_audit(), Number(52.0), Number(52.000055)) == ""
    assert verdict_text(error_audit(), "") == "MAE does not change"
