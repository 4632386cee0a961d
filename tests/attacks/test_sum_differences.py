"""Two sums that differ by one client: exact where the model is the same, worse between honest rounds, noise hides it.

That deployed sites open no two such sums of a round is in ``tests/deploy/site/test_openings.py``.
"""

from dataclasses import dataclass, replace

import pytest
import torch

import fedloom as fl
from fedloom.attacks.seen_updates import Seen
from fedloom.attacks.sum_differences import sum_differences
from fedloom.audits.updates_of_run import LookingServer

WORK = {"epochs": 1, "batch_size": 0, "lr": 0.1}
DRAWN = {"name": "poisson", "rate": 0.9}


@dataclass(frozen=True)
class SameModel(LookingServer):
    """A server that sends the first model in every round, so that clients repeat themselves."""

    grants = (fl.Fact.SAME_START, fl.Fact.ONLY_SUMS)

    def poison_message(self, wave, context):
        return replace(wave.message, shared={**wave.message.shared, "row": context.task.initial_row()})


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=10)


def play(task, server, *channel):
    settings = {"rounds": 6, "local": WORK, "selection": DRAWN, "channel": list(channel), "eval_every": 0}
    fl.run(task, "fedavg", adversary=server, **settings)
    return server.seen


def cosines(found: list[Seen], alone: list[Seen]) -> torch.Tensor:
    """How alike what was subtracted and what clients really sent are."""
    sent = {(one.clients[0], one.context.round): one.change for one in alone}
    pairs = [(one.change, sent[one.clients[0], one.context.round]) for one in found]
    return torch.stack([torch.cosine_similarity(*pair, dim=0) for pair in pairs])


def test_the_update_by_hand(task):
    context = play(task, LookingServer())[0].context
    samples = task.federation.train.sizes.double()
    sent = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def of_sum(*clients):
        weights = samples[list(clients)] / samples[list(clients)].sum()
        return Seen(clients, torch.zeros(5), weights @ sent[list(clients)], int(samples[list(clients)].sum()), context)

    (found,) = sum_differences([of_sum(0, 1, 3), of_sum(0, 1), of_sum(1, 2)])
    assert (found.clients, found.samples) == ((3,), int(samples[3]))
    torch.testing.assert_close(found.change, sent[3])
    assert sum_differences([of_sum(0, 1), of_sum(1, 2), of_sum(0, 2)]) == [], "none differ by one"


def test_a_server_that_sends_one_model_twice_reads_single_updates_out_of_secure_sums(task):
    found = cosines(sum_differences(play(task, SameModel(), "securesum")), play(task, SameModel()))
    assert len(found) >= 3
    assert float(found.min()) > 0.999


def test_between_rounds_of_an_honest_server_others_have_moved_too(task):
    found = cosines(sum_differences(play(task, LookingServer(), "securesum")), play(task, LookingServer()))
    assert 0.2 < float(found.median()) < 0.99


def test_noise_in_shares_hides_the_difference(task):
    noisy = {"name": "privatesum", "noise": 4.0, "clip": 0.5}
    found = cosines(sum_differences(play(task, SameModel(), noisy)), play(task, SameModel()))
    assert float(found.abs().max()) < 0.1
