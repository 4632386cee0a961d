"""An advice in words: every number that it stands on, every doubt that it has, within a hundred columns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedloom.rounds.score import Score
from fedloom.runs.plans.advise.advice import Advice, Cost, Standing
from fedloom.runs.plans.advise.halving import Rung
from fedloom.runs.plans.advise.text import caveats, cost_text, score_text, sure_text, why
from support.advices import DITTO, PICK, example_advice


@pytest.fixture
def advice() -> Advice:
    return example_advice()


def test_the_text_names_who_what_how_good_how_sure_and_how_dear(advice: Advice) -> None:
    text = str(advice)
    assert "Small clients: 4 with 5 to 12 training samples" in text
    assert "Big clients: 4 with 90 training samples" in text
    assert "81.0 ± 1.0 %" in text
    assert "74 % sure to be worse" in text
    assert "> 99 % sure to be worse" in text
    assert "60 kB up and 61 kB down, 6 local steps per client and round" in text
    assert "nothing sent, 3 local steps" in text
    assert "(small 0.0 points, big 1.2 points)" in " ".join(text.split())
    assert "Rung 2: 2 candidates, 20 rounds, 3 seeds." in text
    assert "93 of 120 seconds were used." in text
    assert "Could not run: scaffold lr=0.1, scaffold lr=0.3. no momentum." in text
    assert "9 candidates (m0, m1, m2, m3, m4, m5, …)" in " ".join(text.split())


def test_what_clients_hand_to_each_other_is_named_where_there_is_some() -> None:
    assert cost_text(Cost(1500, 500, 2.0, 2_000_000)) == (
        "1.5 kB up, 500 B down and 2 MB between clients, 2 local steps per client and round"
    )
    assert Cost(1.0, 2.0, 9.0, 4.0).bytes == 7.0


def test_no_line_is_longer_than_a_hundred_columns(advice: Advice) -> None:
    long = replace(DITTO, candidate="fedhybridavglgdual:threshold=auto lr=0.033")
    advice = replace(
        advice, groups=(replace(PICK, runner_up=long),), costs={**advice.costs, long.candidate: Cost(1, 1, 1)}
    )
    assert max(map(len, str(advice).splitlines())) <= 100


@pytest.mark.parametrize(
    ("change", "part", "not_there"),
    [
        ({}, "The best on validation data; on test data it cannot be told apart from the runner-up", "No clear winner"),
        ({"over_runner_up": 0.98}, "The best on validation data.", "told apart"),
        ({"over_runner_up": None}, "The best on validation data.", "told apart"),
        ({"over_runner_up": 0.02}, "on test data the runner-up is ahead", "told apart"),
        (
            {"runner_up": None, "over_local": 0.8},
            "on test data it cannot be told apart from training alone",
            "runner-up",
        ),
        ({"level": ("fedper lr=0.3", "ditto lr=3")}, "No clear winner between ditto and fedper on", "told apart"),
        ({"level": ("fedper lr=0.3",), "reason": "sends less"}, "validation data: ditto sends less.", "best mean"),
        ({"level": ("ditto lr=3",), "reason": "takes fewer steps"}, "other settings, and takes fewer steps", "winner"),
    ],
)
def test_the_reason_says_what_is_established_and_what_is_not(advice, change, part, not_there) -> None:
    words = why(advice, replace(PICK, **change))
    assert part in words
    assert not_there not in words


def test_doubts_are_only_raised_where_there_is_reason(advice: Advice) -> None:
    sure = replace(advice, cannot_run={}, not_run=())
    assert list(caveats(sure)) == []
    early = replace(sure, rungs=(Rung(12, 1, ("a", "b")),))
    assert [sentence.split(":")[0] for sentence in caveats(early)] == [
        "The budget ended at 12 of the 20 rounds you intend to train",
        "There was time for one seed, and fewer than three establish nothing",
    ]


def test_losses_are_shown_as_losses() -> None:
    assert score_text(Standing("local lr=0.1", -1.5, -1.25, 0.5, 2), Score("loss", False, False)) == "loss 1.25 ± 0.5"


@pytest.mark.parametrize(
    ("probability", "words"),
    [
        (1.0, "> 99 % sure to be worse"),
        (0.975, "95 % sure to be worse"),
        (0.9749, "94 % sure to be worse"),
        (0.5, "not told apart"),
        (0.26, "not told apart"),
        (0.25, "50 % sure to be better"),
        (0.035, "93 % sure to be better"),
        (0.0, "> 99 % sure to be better"),
    ],
)
def test_how_sure_is_said_of_what_is_likely_and_never_backwards(probability: float, words: str) -> None:
    assert sure_text(probability) == words
