"""A run's own noise: what it states is not exceeded, and noise that is ten times too small is caught."""

import pytest

import fedloom as fl
from fedloom.attacks.measures.trade_off import curve_of_profile
from fedloom.audits.audit_of_run import audit_of_run, case_of_run
from fedloom.audits.privacy_cases import DELTA
from fedloom.core.errors import FedloomError
from fedloom.privacy import private_mean
from fedloom.training.dpsgd import private_steps

pytest.importorskip("dp_accounting", reason="needs dp-accounting")
MEAN = {
    "rounds": 2,
    "aggregation": {"name": "privatemean", "noise": 1.5, "clip": 0.5, "delta": 1e-5},
    "weight_by": "uniform",
    "selection": {"name": "poisson", "rate": 0.9},
}
SAMPLES = {
    "rounds": 1,
    "local": {"lr": 0.1, "batch_size": 4, "epochs": 1},
    "sample_privacy": {"noise": 1.0, "delta": 1e-5},
}
CASES = {"privatemean": (MEAN, private_mean, 150), "sample_privacy": (SAMPLES, private_steps, 1500)}


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=100)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_no_empirical_epsilon_exceeds_what_the_run_states(name, task):
    settings, _, trials = CASES[name]
    row = audit_of_run(task, trials, confidence=1 - 1e-6, **settings)
    assert row.holds
    assert row.stated > 0.5
    assert row.seen is None or row.lower_bound <= row.seen
    assert row.most is None or row.seen <= row.most
    assert not row.trade_off.exceeds(curve_of_profile([(row.stated, DELTA)]))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_noise_that_is_ten_times_too_small_is_caught(name, task, monkeypatch):
    settings, module, trials = CASES[name]
    honest = module.secure_normal
    monkeypatch.setattr(module, "secure_normal", lambda count: honest(count) / 10)
    row = audit_of_run(task, trials, **settings)
    assert not row.holds
    assert row.lower_bound > row.stated + 0.3
    assert row.trade_off.exceeds(curve_of_profile([(row.stated, DELTA)]))


def test_a_budget_is_audited_with_the_noise_that_it_needs(task):
    found = case_of_run(task, {**SAMPLES, "sample_privacy": {"epsilon": 2.0}})
    assert found.settings["sample_privacy"]["noise"] > 1.0
    assert found.samples == int(task.federation.train.sizes.min())


def test_a_run_without_noise_is_refused(task):
    with pytest.raises(FedloomError, match="has no noise that is audited: give sample_privacy"):
        audit_of_run(task, rounds=1)
