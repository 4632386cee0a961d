"""Other samples in the place of a client's: for whom, and in which rounds."""

import torch

import fedloom as fl
from fedloom.data.changes.concept_drift import with_concept_drift
from fedloom.data.changes.replaced_samples import ReplacedSamples, with_replaced_samples


def federation():
    return fl.task("digits", clients=4).federation


def labels(state, client):
    return state.columns["y"][state.train[client]]


def replacement(found, client):
    positions = found.train[client].sort().values[::2].contiguous()
    samples = {name: column[positions] for name, column in found.columns.items()}
    return ReplacedSamples(client, positions, {**samples, "y": torch.full_like(samples["y"], 7)})


def test_only_these_samples_of_this_client_change_and_nobody_elses_part():
    before = federation()
    one = replacement(before, 2)
    after = with_replaced_samples(before, [one])
    changed = torch.isin(before.train[2], one.positions)
    assert torch.equal(labels(after, 2)[~changed], labels(before, 2)[~changed])
    assert (labels(after, 2)[changed] == 7).all()
    for client in (0, 1, 3):
        assert torch.equal(after.train[client], before.train[client])
    assert torch.equal(after.test.order, before.test.order)
    assert not after.later


def test_samples_that_two_clients_share_change_for_one_of_them():
    whole = federation()
    shared = fl.Federation(whole.columns, *(type(whole.train).of([part[0], part[0]]) for part in (whole.train, whole.test, whole.valid)), classes=10)  # fmt: skip # noqa: E501
    after = with_replaced_samples(shared, [replacement(shared, 1)])
    assert torch.equal(labels(after, 0), labels(shared, 0))
    assert not torch.equal(labels(after, 1), labels(shared, 1))


def test_from_one_round_to_another_beside_drift():
    drifting = with_concept_drift(federation(), [3], seed=1)
    states = (drifting, drifting.at(3))
    positions = torch.unique(torch.cat([state.train[1] for state in states]))
    samples = {name: column[positions] for name, column in drifting.columns.items()}
    one = ReplacedSamples(1, positions, {**samples, "y": torch.full_like(samples["y"], 7)})
    after = with_replaced_samples(drifting, [one], 2, 4)
    for number in (0, 1, 5, 6):
        assert torch.equal(labels(after.at(number), 1), labels(drifting.at(number), 1)), number
    for number in (2, 3, 4):
        assert (labels(after.at(number), 1) == 7).all(), number
    assert torch.equal(labels(after.at(3), 0), labels(drifting.at(3), 0))
    assert all(state.columns["y"] is after.columns["y"] for _, state in after.later)
