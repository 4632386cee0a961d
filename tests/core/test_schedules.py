"""Schedules over rounds and within a round, by hand and against torch's."""

import pytest
import torch

from fedloom.aggregation.server_optimizer import ServerOptimizer
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.schedules import one_cycle, within_round


def test_step_and_exponential_and_cosine_by_hand():
    step = LocalWork(lr=1.0, schedule="step", lr_decay=0.5, lr_every=2)
    assert [step.lr_at(t, 6) for t in range(1, 7)] == [1, 1, 0.5, 0.5, 0.25, 0.25]
    cosine = LocalWork(lr=1.0, schedule="cosine", lr_decay=0.1)
    assert cosine.lr_at(1, 11) == 1.0
    assert cosine.lr_at(11, 11) == pytest.approx(0.1)
    assert LocalWork(lr=1.0, schedule="exponential", lr_decay=0.5).lr_at(4, 9) == 0.125


def test_a_warmup_rises_in_equal_steps_and_the_schedule_begins_after_it():
    work = LocalWork(lr=1.0, schedule="exponential", lr_decay=0.5, warmup=3)
    assert [work.lr_at(t, 9) for t in range(1, 8)] == [0.25, 0.5, 0.75, 1.0, 0.5, 0.25, 0.125]
    cosine = LocalWork(lr=1.0, schedule="cosine", lr_decay=0.1, warmup=3)
    assert cosine.lr_at(4, 9) == 1.0
    assert cosine.lr_at(9, 9) == pytest.approx(0.1)


def test_what_comes_before_round_1_has_the_rate_of_round_1():
    work = LocalWork(lr=1.0, warmup=3)
    assert work.lr_at(0, 9) == work.lr_at(1, 9)


@pytest.mark.parametrize("rounds", [2, 3, 4, 10, 37])
def test_one_cycle_is_torchs(rounds):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=rounds, cycle_momentum=False)
    for done in range(rounds):
        assert one_cycle(done, rounds) == pytest.approx(theirs.get_last_lr()[0], abs=1e-9)
        optimizer.step()
        if done + 1 < rounds:
            theirs.step()
    assert one_cycle(0, 1) == 1.0


def test_within_a_round_the_rate_falls_from_all_of_it_to_the_given_share():
    assert [within_round("linear", 0.2, step, 5) for step in range(5)] == pytest.approx([1, 0.8, 0.6, 0.4, 0.2])
    assert [within_round("cosine", 0.0, step, 3) for step in range(3)] == pytest.approx([1, 0.5, 0])
    assert within_round("linear", 0.2, 0, 1) == 1.0


def test_the_server_has_the_schedules_of_clients():
    row, mean = torch.zeros(3), torch.ones(3)
    server = ServerOptimizer("sgd", lr=0.5, schedule="step", lr_decay=0.5, warmup=1)
    moved = [float(server.at(t, 9)(row, mean, {})[0][0]) for t in (1, 2, 3)]
    assert moved == [0.25, 0.5, 0.25]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schedule": "cosin"}, "unknown local.schedule 'cosin'. Did you mean 'cosine'"),
        ({"schedule": "onecycle", "warmup": 2}, "local.warmup is not for onecycle"),
        ({"schedule": "mine.py:rate", "lr_decay": 0.1}, "local.lr_decay is not for a function of your own"),
        ({"round_decay": 0.1}, "set both"),
        ({"round_schedule": "linear"}, "set both"),
        ({"warmup": -1}, "warmup=-1: it must be at least 0"),
    ],
)
def test_settings_that_say_nothing_are_refused(settings, message):
    with pytest.raises(FedloomError, match=message):
        LocalWork(**settings)
