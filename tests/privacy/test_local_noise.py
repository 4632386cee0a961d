"""Noise of clients: what leaves is clipped, noisy, and tells an attacker no more than its epsilon allows."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from fedloom.channel.topk import TopK
from fedloom.core.channel_step import Sender
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.methods.fedavg import FedAvg
from fedloom.privacy.local_noise import LocalNoise
from support.distinguishing import violation
from support.synthetic import cohort, small_task


def sent(step: LocalNoise, rows: torch.Tensor, prefix: str = "channel/0/row") -> torch.Tensor:
    """What as many clients as there are rows send."""
    task = small_task()
    clients = cohort(task, "vectorised", LocalWork(), [number % 4 for number in range(len(rows))])
    encoded, extras = step.encode(rows, Sender(clients, prefix))
    assert extras == {}
    return step.decode(encoded, extras, rows.shape[1])


def test_without_noise_it_is_the_clipped_update():
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [math.inf, 1.0]])
    found = sent(LocalNoise(noise=1e-12, clip=1.0), rows)
    assert torch.allclose(found, torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0], [0.0, 0.0]]), atol=1e-6)


@pytest.mark.parametrize("seeded", [True, False])
def test_the_noise_has_the_deviation_that_the_ledger_counts(seeded):
    found = sent(LocalNoise(noise=2.0, clip=3.0, seeded=seeded), torch.zeros(4, 5000)) / (2.0 * 3.0)
    assert kstest(found.flatten().numpy(), "norm").pvalue > 1e-4
    assert float(torch.corrcoef(found).fill_diagonal_(0).abs().max()) < 0.08  # clients' noise is their own


def test_noise_of_a_seed_repeats_for_the_same_reply_only():
    rows, step = torch.zeros(2, 50), LocalNoise(seeded=True)
    assert torch.equal(sent(step, rows), sent(step, rows))
    assert not torch.equal(sent(step, rows), sent(step, rows, "channel/0/head"))
    assert not torch.equal(sent(LocalNoise(), rows), sent(LocalNoise(), rows))


def test_an_attacker_tells_two_updates_no_better_than_epsilon_allows():
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    from fedloom.privacy.client_ledger import LocalLedger

    runs, delta = 20_000, 1e-3
    epsilon = LocalLedger(3.0, delta).epsilon(1, 1)

    def released(step: LocalNoise, value: float) -> np.ndarray:
        return sent(step, torch.full((runs, 1), value)).flatten().numpy()

    right, wrong = LocalNoise(noise=3.0), LocalNoise(noise=1.5)  # as if two updates differed by the clip norm only
    assert violation(released(right, 50.0), released(right, -50.0), epsilon, delta) <= 0
    assert violation(released(wrong, 50.0), released(wrong, -50.0), epsilon, delta) > 0


def test_what_would_leave_before_the_noise_is_refused():
    with pytest.raises(FedloomError, match="must be the first step"):
        LocalNoise().check(FedAvg(), small_task(), (TopK(),))


@pytest.mark.parametrize("settings", [{"noise": 0.0}, {"clip": math.inf}, {"delta": 1.0}, {"epsilon": -1.0}])
def test_settings_that_protect_nobody_are_refused(settings):
    with pytest.raises(FedloomError, match="localnoise"):
        LocalNoise(**settings)
