"""The numbers of an audit as text: each with its spread over seeds, its interval, or that it is of one seed."""

from __future__ import annotations

import pytest

from fedloom.audits.of_run.conclude import ADDED
from fedloom.audits.of_run.page.words import brief, number_text, score_text
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
        (finding("auc", Number(0.57), "auc"), "57 of 100 members told from others, where guessing does 50"),
        (finding("gained", Number(0.04), lost=Number(0.75)), "75 % of the score lost"),
        (finding("lost", Number(0.5), words=ADDED), "50 % added to the error"),
        (finding("own", Number(0.5)), "50 %"),
    ],
)
def test_a_number_says_in_a_sentence_what_it_is_of(one, said):
    assert brief(one) == said
