"""Free riders: plain ones send nothing, disguised ones as much as the model moves."""

from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch

import fedloom as fl


def sent_by_rider(noise, rounds=3):
    seen = []

    @dataclass(frozen=True)
    class Watched(fl.FreeRider):
        def look_at_replies(self, wave, replies):
            row = wave.message["row"]
            seen.append((row.clone(), (replies["row"] - row).norm(dim=1).tolist()))
            return {}

    fl.run(fl.task("digits", clients=4), "fedavg", rounds=rounds, adversary=Watched(clients=[2], noise=noise))
    return seen


def test_a_plain_rider_sends_back_what_it_got():
    for _, norms in sent_by_rider(0.0):
        assert norms[2] == 0
        assert min(norms[0], norms[1], norms[3]) > 0


def test_a_disguise_is_as_long_as_the_model_moved():
    seen = sent_by_rider(1.0)
    assert seen[0][1][2] == 0, "nothing has moved before the first round"
    for (before, _), (now, norms) in pairwise(seen):
        assert norms[2] == pytest.approx(float((now - before).norm()), rel=0.1)


def test_riders_slow_the_mean_down():
    task = fl.task("digits", clients=6)
    work = {"epochs": 1, "lr": 0.05}
    loss = [
        fl.run(task, "fedavg", rounds=3, local=work, adversary=one).last("global_model/global_test/loss")
        for one in (None, fl.FreeRider(fraction=0.5, noise=0.0))
    ]
    assert loss[1] > loss[0] + 0.05
    assert torch.isfinite(torch.tensor(loss)).all()
