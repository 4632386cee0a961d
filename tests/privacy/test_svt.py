"""SVT against passes that are played one after another, its noise, and where its names mislead."""

import math

import pytest
import torch
from scipy.stats import kstest
from scipy.stats import laplace as laplace_distribution

from fedloom.core.errors import FedloomError
from fedloom.privacy.svt import SVT, laplace
from support.senders import MemorySender, send


def generator(seed):
    return torch.Generator().manual_seed(seed)


def play_passes(step, changes, random):
    """The accepted entries, pass by pass, as the document has it."""
    count = math.ceil(step.fraction * len(changes))
    threshold = step.tau + float(laplace(1, 2 * step.gamma / step.epsilon, random))
    scale = 4 * step.gamma * count / (step.epsilon * (2 * count) ** (2 / 3))
    accepted, left = [], list(range(len(changes)))
    while len(accepted) < count:
        noise = laplace(len(left), scale, random)
        passed = [
            i
            for i, n in zip(left, noise.tolist(), strict=True)
            if min(abs(float(changes[i])), step.gamma) + n >= threshold
        ]
        order = torch.randperm(len(passed), generator=random).tolist()
        accepted += [passed[place] for place in order][: count - len(accepted)]
        left = [i for i in left if i not in passed]
    return accepted


def test_entries_are_accepted_as_often_as_by_passes_one_after_another():
    step = SVT(fraction=0.4, epsilon=60.0, gamma=1.0, tau=0.5)
    changes, runs = torch.tensor([0.0, 0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 5.0]).double(), 1500
    often, played = torch.zeros(10), torch.zeros(10)
    for seed in range(runs):
        mine = step.accepted_entries(changes, generator(seed))
        assert len(mine) == len(set(mine.tolist())) == 4
        often[mine] += 1
        played[play_passes(step, changes, generator(runs + seed))] += 1
    assert ((often - played) / runs).abs().max() < 4.5 * (0.5 / runs) ** 0.5
    assert often[9] > 1.2 * often[0]


def test_laplaces_distribution():
    assert kstest(laplace(5000, 3.0, generator(0)).numpy(), laplace_distribution(scale=3.0).cdf).pvalue > 0.001


def test_a_smaller_noise_var_is_more_noise():
    off = {}
    for noise_var in (1.0, 100.0):
        step = SVT(fraction=1.0, epsilon=1.0, noise_var=noise_var, gamma=1.0)
        row = torch.full((1, 2000), 0.3)
        off[noise_var] = float((send(step, row) - row).abs().mean())
    assert off[1.0] > 0.5 > 0.03 > off[100.0]


def test_no_entry_exceeds_gamma_per_step_and_the_share_passes():
    rows = torch.randn(2, 500, generator=generator(0))
    found = send(SVT(), rows, MemorySender([0, 1], steps=7))
    assert found.abs().max() == pytest.approx(7e-5)
    assert (found != 0).sum(1).tolist() == [300, 300]


def test_what_could_never_exceed_the_threshold_is_not_sent():
    step = SVT(fraction=0.5, epsilon=1e12, gamma=1.0, tau=0.5)
    assert step.accepted_entries(torch.tensor([0.0, 0.1, 0.9, 0.0]).double(), generator(0)).tolist() == [2]


@pytest.mark.parametrize("name", ["epsilon", "noise_var", "gamma"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_settings_that_mean_nothing_are_refused(name, value):
    with pytest.raises(FedloomError, match=f"{name}="):
        SVT(**{name: value})


@pytest.mark.parametrize("settings", [{"fraction": 0.0}, {"fraction": 2.0}, {"tau": -1.0}])
def test_impossible_shares_and_thresholds_are_refused(settings):
    with pytest.raises(FedloomError, match=r"above 0|at least 0"):
        SVT(**settings)
