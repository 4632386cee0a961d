"""SVT against passes that are played one after another, its noise, and where its names mislead."""

import math

import pytest
import torch
from scipy.stats import kstest
from scipy.stats import laplace as laplace_distribution

import fedloom as fl
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


def release_by_hand(step, changes, random):
    """The semantics of 2.0.16 in float64: which entries leave raw, and the filtered changes."""
    count = math.ceil(step.fraction * len(changes))
    threshold = step.tau + float(laplace(1, 2 * step.gamma / step.epsilon, random))
    scale = 4 * step.gamma * count / (step.epsilon * (2 * count) ** (2 / 3))
    draws, passes = torch.rand(2, len(changes), generator=random, dtype=torch.float64), []
    for value, draw in zip(changes.tolist(), draws[0].tolist(), strict=True):
        below = threshold - min(abs(value), step.gamma)
        miss = 1 - 0.5 * math.exp(-below / scale) if below > 0 else 0.5 * math.exp(below / scale)
        passes.append(max(1, math.ceil(math.log(1 - draw) / math.log(miss))))
    last = sorted(passes)[count - 1]
    accepted = [place for place, number in enumerate(passes) if number <= last]
    drawn = sorted({accepted[i] for i in torch.randint(len(accepted), (count,), generator=random).tolist()})
    found = [value if place in accepted else 0.0 for place, value in enumerate(changes.tolist())]
    for place, noise in zip(drawn, laplace(len(drawn), 2 * step.gamma / step.noise_var, random).tolist(), strict=True):
        found[place] = min(max(changes[place].item() + noise, -step.gamma), step.gamma)
    return [place for place in accepted if place not in drawn], found


def test_the_semantics_of_2_0_16_by_hand():
    step = SVT(fraction=0.5, epsilon=3.0, gamma=0.2, tau=0.1, semantics="2.0.16")
    changes = torch.randn(12, generator=generator(1)).double()
    seen = 0
    for seed in range(20):
        raw, expected = release_by_hand(step, changes, generator(seed))
        found = step.filter_changes(changes, generator(seed))
        assert torch.allclose(found, torch.tensor(expected).double())
        assert torch.equal(found[raw], changes[raw])  # neither clipped nor noisy
        seen += sum(abs(changes[place]) > step.gamma for place in raw)
    assert seen > 0


def test_a_third_of_the_entries_leaves_raw_in_2_0_16_and_none_in_the_newer_semantics():
    """Three quarters are accepted in two passes; of those exp(-0.6 / 0.75) are never drawn."""
    changes = torch.randn(60_000, generator=generator(1))
    old, new = (SVT(semantics=one).filter_changes(changes, generator(0)) for one in ("2.0.16", "newer"))
    assert ((old == changes).float().mean() - 0.34).abs() < 0.04  # how many depends on one noisy threshold
    assert ((old == 0).float().mean() - 0.25).abs() < 0.06
    assert (old.norm() / changes.norm() - 0.58).abs() < 0.04
    assert not (new == changes).any()
    assert new.abs().max() <= 1.0001e-5


@pytest.mark.slow
def test_digits_learn_through_the_semantics_of_2_0_16_and_not_through_the_newer_ones():
    task = fl.task("digits", clients=10, alpha=0.5)
    run = {"rounds": 10, "local": {"epochs": 1, "batch_size": 16, "lr": 0.1}, "eval_every": 5}
    plain, old, new = (
        fl.run(task, "fedavg", **run, channel=channel).series("global_model/global_test/accuracy")[1]
        for channel in ([], [{"name": "svt", "semantics": "2.0.16"}], [{"name": "svt"}])
    )
    assert plain[0] == old[0] == new[0]
    assert plain[1] > old[1] + 0.05
    assert plain[2] > old[2] + 0.03
    assert old[2] > old[1] + 0.02
    assert old[1] > new[1] + 0.4
    assert abs(new[2] - new[0]) < 0.05


@pytest.mark.parametrize("name", ["epsilon", "noise_var", "gamma"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_settings_that_mean_nothing_are_refused(name, value):
    with pytest.raises(FedloomError, match=f"{name}="):
        SVT(**{name: value})


@pytest.mark.parametrize("settings", [{"fraction": 0.0}, {"fraction": 2.0}, {"tau": -1.0}])
def test_impossible_shares_and_thresholds_are_refused(settings):
    with pytest.raises(FedloomError, match=r"above 0|at least 0"):
        SVT(**settings)
