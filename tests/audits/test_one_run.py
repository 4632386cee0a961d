"""One run with canaries: what its noise states is not exceeded, and noise that is ten times too small is caught."""

import numpy as np
import pytest

import fedloom as fl
from fedloom.attacks.measures.trade_off import gaussian_curve
from fedloom.audits.one_run import SpentPrivacy, audit_in_one_run, judge_scores
from fedloom.core.errors import FedloomError
from fedloom.privacy.client_ledger import SampleLedger
from fedloom.training.dpsgd import private_steps

pytest.importorskip("dp_accounting", reason="needs dp-accounting")
GAUSSIAN = SpentPrivacy(SampleLedger(2.0, 1e-5, 0), [50], [1])
"""One step of all samples with a noise of 2: the Gaussian mechanism with mu = 1/2."""
PRIVATE = {"rounds": 1, "local": {"batch_size": 0}, "sample_privacy": {"noise": 2.0, "seeded": True}}


def guesses_of(mu: float, canaries: int = 400, seed: int = 0):
    random = np.random.default_rng(seed)
    coins = random.integers(0, 2, canaries).astype(float)
    return judge_scores(GAUSSIAN, random.normal(size=canaries) + mu * coins, coins)


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=10)


def test_the_curve_of_what_was_spent_is_that_of_gaussian_noise_from_below():
    rates = np.linspace(0.01, 0.99, 99)
    true, promised = gaussian_curve(0.5)(rates), GAUSSIAN.curve(rates)
    assert (promised <= true + 1e-9).all()
    assert promised == pytest.approx(true, abs=0.03)


def test_scores_of_the_noise_that_is_stated_hold_and_those_of_a_tenth_of_it_do_not():
    assert all(guesses_of(0.5, seed=seed).holds for seed in range(10))
    caught = guesses_of(5.0)
    assert not caught.holds
    assert caught.beats_curve
    assert caught.lower_bound > caught.stated
    assert caught.trade_off.exceeds(GAUSSIAN.curve)


def test_the_noise_that_guesses_leave_possible_is_between_the_true_one_and_the_stated_one():
    most = guesses_of(5.0).most_noise()
    assert most is not None
    assert 0.1 <= most < 1.0


def test_guesses_at_random_leave_any_noise_possible():
    assert guesses_of(0.0).most_noise() is None


def test_a_run_is_repeated_by_its_seed_and_scores_are_higher_for_canaries_that_were_there(task):
    first, second = (audit_in_one_run(task, canaries=100, **PRIVATE) for _ in range(2))
    assert np.array_equal(first.scores, second.scores)
    assert first.holds
    assert first.scores[first.coins == 1].mean() > first.scores[first.coins == 0].mean()


def test_what_a_secure_sum_leaves_visible_is_guessed_as_well(task):
    found = audit_in_one_run(task, canaries=50, channel=["securesum"], **PRIVATE)
    assert found.holds
    assert (found.scores != 0).all()


@pytest.mark.parametrize("method", ["scaffold", "fedrep"])
def test_methods_that_send_other_names_or_parts_of_a_model_are_guessed_too(task, method):
    found = audit_in_one_run(task, method, canaries=50, **PRIVATE)
    assert found.holds
    assert (found.scores != 0).all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sample_privacy": None}, "this run has none: give sample_privacy"),
        ({"adversary": "signflipping"}, "leave out adversary"),
        ({"method": "local"}, "reads what clients send, and local sends nothing"),
    ],
)
def test_what_cannot_be_audited_is_refused_in_a_sentence(task, settings, words):
    with pytest.raises(FedloomError, match=words):
        audit_in_one_run(task, canaries=20, **{**PRIVATE, **settings})


@pytest.mark.slow
def test_a_whole_run_holds_and_with_a_tenth_of_its_noise_is_caught(monkeypatch):
    digits = fl.task("digits", clients=20)
    settings = {"rounds": 5, "local": {"batch_size": 16}, "sample_privacy": {"epsilon": 2.0}}
    honest = private_steps.secure_normal
    assert audit_in_one_run(digits, canaries=500, confidence=1 - 1e-6, **settings).holds
    monkeypatch.setattr(private_steps, "secure_normal", lambda count: honest(count) / 10)
    caught = audit_in_one_run(digits, canaries=500, **settings)
    assert not caught.holds
    assert caught.lower_bound > caught.stated
    assert caught.trade_off.exceeds(caught.spent.curve)
