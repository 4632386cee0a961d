"""Thick strokes are no class, and an update tells who has them; a sum tells of nobody, and what is missing is said."""

from dataclasses import replace

import pytest
import torch

import fedloom as fl
from fedloom.attacks.measures.guesses import auc
from fedloom.attacks.properties.property_inference import ServerSamples, property_scores
from fedloom.audits.updates_of_run import updates_of_run
from fedloom.core.errors import FedloomError
from fedloom.data.federation import Ragged

CLIENTS, SIZE = 16, 40


def thick_strokes(made):
    """The half of each class with the most ink: as many of every class, so that labels do not tell."""
    ink, y = made.columns["x"].float().flatten(1).mean(1), made.columns["y"]
    thick = torch.zeros(len(y), dtype=torch.bool)
    for label in range(10):
        of_class = (y == label).nonzero().flatten()
        thick[of_class[ink[of_class].argsort()][len(of_class) // 2 :]] = True
    return thick


@pytest.fixture(scope="module")
def case():
    """Clients of whom every second one has thick strokes in half of its samples, and samples of the server's own."""
    task = fl.task("digits", clients=10)
    made, draw = task.federation, torch.Generator().manual_seed(0)
    thick = thick_strokes(made)
    mixed = torch.randperm(len(thick), generator=draw)
    own, rest = mixed[:500], mixed[500:]
    bold, fine = rest[thick[rest]], rest[~thick[rest]]
    parts = []
    for client in range(CLIENTS):
        some = SIZE // 2 if client % 2 == 0 else 0
        drawn = [
            which[torch.randperm(len(which), generator=draw)[:n]] for which, n in ((bold, some), (fine, SIZE - some))
        ]
        parts.append(torch.cat(drawn).sort().values)
    none = Ragged.empty(CLIENTS)
    made = replace(made, train=Ragged.of(parts), test=none, valid=none, names=())
    return replace(task, federation=made, made_from={}), ServerSamples(own[thick[own]], own[~thick[own]])


@pytest.fixture(scope="module")
def seen(case):
    return updates_of_run(case[0], "fedavg", rounds=2, eval_every=0)[0]


def both(scores):
    return (torch.tensor([scores[client] for client in range(start, CLIENTS, 2)]) for start in (0, 1))


def test_batches_have_the_share_that_is_asked_for_and_are_the_same_every_time():
    own = ServerSamples(torch.arange(10), torch.arange(10, 30), share=0.25)
    assert [int((own.draw(number, 8) < 10).sum()) for number in range(4)] == [2, 0, 2, 0]
    assert torch.equal(own.draw(2, 8), own.draw(2, 8))
    assert not torch.equal(own.draw(0, 8).sort().values, own.draw(2, 8).sort().values)


@pytest.mark.slow
def test_updates_tell_who_has_the_property(case, seen):
    task, own = case
    assert auc(*both(property_scores(task, seen, own))) > 0.8


def test_a_property_that_is_drawn_at_random_is_not_found(case, seen):
    task, own = case
    everything = torch.cat([own.has, own.lacks])
    mixed = everything[torch.randperm(len(everything), generator=torch.Generator().manual_seed(1))]
    half = len(mixed) // 2
    assert (
        0.2
        < auc(*both(property_scores(task, seen[:CLIENTS], ServerSamples(mixed[:half], mixed[half:], batches=60))))
        < 0.8
    )


def test_what_cannot_be_asked_is_refused(case, seen):
    task, own = case
    with pytest.raises(FedloomError, match="samples with the property and samples without: give it both"):
        property_scores(task, seen, replace(own, has=own.has[:0]))
    summed, _ = updates_of_run(task, "fedavg", rounds=1, eval_every=0, channel=["securesum"])
    with pytest.raises(FedloomError, match="the property of none of them"):
        property_scores(task, summed, own)
