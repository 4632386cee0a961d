"""``fedloom privacy``: the planning question, both ways, and mistakes."""

import numpy as np
import pytest
from typer.testing import CliRunner

from fedloom.audits import privacy_cases
from fedloom.cli.app import app
from fedloom.core.errors import FedloomError
from support.command_line import json_output, output

pytest.importorskip("dp_accounting", reason="needs dp-accounting")


def answer(words: str) -> dict[str, object]:
    return json_output(app, "privacy", *words.split())


def test_noise_to_epsilon():
    found = answer("--sigma 1 --rate 0.01 --rounds 1000 --delta 1e-5")
    assert found["epsilon"] == pytest.approx(1.828, abs=1e-3)
    assert found["neighbours"] == "one client counts as zero"


@pytest.mark.slow
def test_epsilon_to_noise_and_the_error_to_expect():
    found = answer("--epsilon 2 --delta 1e-5 --rounds 100 --clients 1000 --per-round 50 --parameters 10000")
    assert found["epsilon"] <= 2
    assert found["error_per_number"] == pytest.approx(found["sigma"] / 50)
    assert found["error_norm"] == pytest.approx(found["sigma"] / 50 * 100)


def test_a_fixed_number_never_reports_less_than_it_spends():
    found = answer("--sigma 1.1 --clients 1000 --per-round 10 --rounds 1000 --sampling fixed")
    assert found["epsilon"] >= 9.8
    assert found["neighbours"] == "replace one client"


def test_it_says_it_in_words():
    said = output(app, "privacy", "--sigma", 1, "--clients", 9, "--per-round", 9, "--rounds", 1)
    assert "every client in every round" in said
    assert "neighbours: one client counts as zero" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--rounds 10 --rate 0.1", "one of the two"),
        ("--epsilon 1 --sigma 1 --rate 0.1", "one of the two"),
        ("--epsilon 1", "say how clients are drawn"),
        ("--epsilon 8 --mechanism privatesum --parameters 9 --clients 1", "a sum of 1 client hides nothing"),
        ("--epsilon 8 --mechanism privatesum --parameters 9 --clients 6 --rate 0.2", "needs 2 clients in a round"),
        ("--epsilon 1 --per-round 5", "needs --clients"),
        ("--epsilon 1 --rate 0.1 --clients 10 --per-round 5", "give one"),
        ("--epsilon 1 --clients 10 --per-round 50", "only 10 clients"),
        ("--epsilon 1 --rate 2", "at most 1"),
        ("--epsilon 1 --rate 0.1 --delta 2", "above 0 and less than 1"),
        ("--epsilon -1 --rate 0.1", "epsilon=-1.0: it must be above 0"),
        ("--sigma -1 --rate 0.1", "at least 1e-12 and at most 1,000,000"),
        ("--sigma 1e-200 --rate 0.1", "at least 1e-12 and at most 1,000,000"),
        ("--sigma 1e300 --rate 0.1", "at least 1e-12 and at most 1,000,000"),
        ("--sigma 1 --rate 0.1 --clip 0", "positive"),
        ("--sigma 1 --sampling fixed --rate 0.1", "needs --clients and --per-round"),
    ],
)
def test_mistakes_end_in_a_sentence(words, said):
    with pytest.raises(FedloomError, match=said):
        app(["privacy", *words.split()], standalone_mode=False)


class Telling:
    """A mechanism that always tells, and states an epsilon."""

    name, neighbour = "telling", "zero"

    def __init__(self, stated):
        self.stated = stated

    def play(self, presence, trials):
        return np.full(trials, float(presence == "in")), self.stated


@pytest.mark.parametrize(("stated", "code"), [(50.0, 0), (0.5, 1)])
def test_an_audit_that_finds_more_than_is_stated_fails(stated, code, monkeypatch):
    monkeypatch.setattr(privacy_cases, "privacy_cases", lambda: (Telling(stated),))
    result = CliRunner().invoke(app, ["privacy", "--audit", "--trials", "200"])
    assert result.exit_code == code
    assert ("tells more than it states" in result.output) == bool(code)
