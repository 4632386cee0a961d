"""Membership in models of real runs: an overfitted client gives its samples away, and DP-SGD at epsilon 2 does not."""

from dataclasses import replace

import pytest
import torch

import fedloom as fl
from fedloom.attacks.measures.guesses import judge_guesses, most_auc, true_positives_at
from fedloom.attacks.membership.lira import lira
from fedloom.attacks.membership.loss_threshold import loss_threshold
from fedloom.attacks.membership.rmia import rmia
from fedloom.attacks.membership.signals import losses_at
from fedloom.audits.shadow_models import shadow_models, train_on
from fedloom.core.errors import FedloomError
from fedloom.privacy.client_ledger import SampleLedger
from fedloom.privacy.noise_settings import smallest_noise

OVERFIT = {"rounds": 1, "local": {"lr": 0.3, "batch_size": 16, "epochs": 20}}
EPSILON, DELTA = 2.0, 1e-5
PRIVATE = {
    "rounds": 1,
    "local": {"lr": 0.1, "batch_size": 32, "epochs": 5},
    "sample_privacy": {"epsilon": EPSILON, "delta": DELTA, "seeded": True},
}


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=10)


def halves(task, size, seed=0):
    """As many samples for training as others of the same kind."""
    made = task.federation
    everything = torch.cat([made.train.order, made.test.order, made.global_test])
    mixed = everything[torch.randperm(len(everything), generator=torch.Generator().manual_seed(seed))]
    return mixed[:size], mixed[size : 2 * size]


def test_a_shadow_model_is_a_model_of_its_samples(task):
    members, _ = halves(task, 30)
    one, same, other = (train_on(task, members, {**OVERFIT, "seed": seed}) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert float(losses_at(task, one, members).mean()) < 0.05


def test_an_overfitted_client_gives_its_samples_away_by_their_loss(task):
    members, others = halves(task, 60)
    found = loss_threshold(task, train_on(task, members, OVERFIT), members, others)
    assert found.auc > 0.6
    assert (found.members, found.others) == (60, 60)


@pytest.mark.slow
def test_shadow_models_tell_more_than_the_loss(task):
    members, others = halves(task, 100)
    row = train_on(task, members, OVERFIT)
    shadows = shadow_models(task, torch.cat([members, others]), 8, OVERFIT)
    loss = loss_threshold(task, row, members, others)
    online, offline = (lira(task, row, members, others, shadows, online=mode) for mode in (True, False))
    pairwise = rmia(task, row, members, others, shadows)
    assert min(online.auc, offline.auc, pairwise.auc) > loss.auc > 0.6
    assert online.rates[1].true_positives > 5 * 0.01, "where it accuses one in a hundred others"


@pytest.mark.slow
def test_a_server_learns_it_of_its_clients_from_what_they_send():
    task, seen = fl.task("digits", clients=30), list[torch.Tensor]()

    class Listen(fl.Adversary):
        def look_at_replies(self, wave, replies):
            seen.extend(replies["row"])
            return {}

    fl.run(task, "fedavg", rounds=1, local=OVERFIT["local"], adversary=Listen())
    made = task.federation
    found = [loss_threshold(task, row, made.train[client], made.test[client]) for client, row in enumerate(seen)]
    assert sum(guesses.auc for guesses in found) / len(found) > 0.6


@pytest.mark.slow
def test_dp_sgd_at_epsilon_2_leaves_guesses_at_random_and_no_rate_beats_its_bound(task):
    members, others = halves(task, 800)
    row = train_on(task, members, PRIVATE)
    shadows = shadow_models(task, torch.cat([members, others]), 4, PRIVATE)
    rates = (0.001, 0.01, 0.1, 0.5)
    found = [
        judge_guesses(-losses_at(task, row, members), -losses_at(task, row, others), rates),
        *(lira(task, row, members, others, shadows, online=mode) for mode in (True, False)),
        *(rmia(task, row, members, others, shadows, online=mode) for mode in (True, False)),
    ]
    assert [guesses.auc for guesses in found] == pytest.approx([0.5] * 5, abs=0.05)
    assert not any(rate.exceeds(EPSILON, DELTA) for guesses in found for rate in guesses.rates)


@pytest.mark.slow
def test_at_epsilon_2_the_best_guesses_are_better_than_chance_and_within_what_the_noise_leaves(task):
    """What a single run has is chance to 0.02 either way; the mean of several is above 0.5, as the bound allows."""
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    size, steps, batch = 800, 125, 32
    noise = smallest_noise(lambda noise: SampleLedger(noise, DELTA, batch).spent([size], [steps]), EPSILON, "the run")
    deltas = (DELTA, 1e-3, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15)
    most = most_auc([(SampleLedger(noise, delta, batch).spent([size], [steps]), delta) for delta in deltas])
    losses, pairwise = list[float](), list[float]()
    for seed in range(5):
        members, others = halves(task, size, seed)
        row = train_on(task, members, {**PRIVATE, "seed": seed})
        shadows = shadow_models(task, torch.cat([members, others]), 4, PRIVATE, seed)
        losses.append(loss_threshold(task, row, members, others).auc)
        pairwise.append(rmia(task, row, members, others, shadows).auc)
    assert most == pytest.approx(0.617, abs=0.002)
    assert sum(losses) / 5 == pytest.approx(0.5, abs=0.05)
    assert 0.52 < sum(pairwise) / 5 < 0.57
    assert max(losses + pairwise) < most


def test_without_privacy_the_bound_is_beaten(task):
    made = task.federation
    y = torch.randint(0, 10, made.columns["y"].shape, generator=torch.Generator().manual_seed(0))
    by_heart = replace(task, federation=replace(made, columns={**made.columns, "y": y}))
    members, others = halves(by_heart, 200)
    row = train_on(by_heart, members, {"rounds": 1, "local": {"lr": 0.3, "batch_size": 16, "epochs": 60}})
    scores = [-losses_at(by_heart, row, positions) for positions in (members, others)]
    assert true_positives_at(*scores, 0.1).exceeds(EPSILON / 2, DELTA)


def test_samples_that_no_shadow_model_knows_are_refused(task):
    members, others = halves(task, 20)
    shadows = shadow_models(task, members, 2, OVERFIT)
    with pytest.raises(FedloomError, match="not in their pool: make it larger"):
        lira(task, task.initial_row(), members, others, shadows)
