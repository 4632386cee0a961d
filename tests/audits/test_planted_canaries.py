"""Canaries in a run's data: they take places, keep sizes, and are there or count as zero by a keyed coin."""

import dataclasses

import pytest
import torch

import fedloom as fl
from fedloom.attacks.reconstruction.gradients import sample_gradients
from fedloom.audits.planted_canaries import plant_canaries
from fedloom.audits.updates_of_run import LookingServer
from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.engines.inline import Inline
from fedloom.rounds.loop import play_round
from fedloom.rounds.run_state import initial_state
from fedloom.runs.prepare import prepare


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=10)


def test_sizes_stay_and_every_other_sample_is_where_it_was(task):
    planted, before = plant_canaries(task, 95, 0), task.federation.train
    after = planted.task.federation.train
    assert torch.equal(after.sizes, before.sizes)
    kept = after.order < len(task.federation.columns["y"])
    assert int((~kept).sum()) == 95
    assert torch.equal(after.order[kept], before.order[kept])
    assert torch.equal(planted.task.inputs(after.order[kept]), task.inputs(before.order[kept]))


def test_canaries_are_shared_evenly_and_named_by_their_clients(task):
    planted = plant_canaries(task, 95, 0)
    assert sorted(set(planted.positions.sizes.tolist())) == [9, 10]
    for client in range(10):
        mine = planted.task.federation.train[client]
        assert torch.isin(planted.positions[client], mine).all()


def test_coins_are_fair_keyed_and_decide_what_is_a_number(task):
    planted = plant_canaries(task, 400, 0)
    again, other = plant_canaries(task, 400, 0), plant_canaries(task, 400, 1)
    assert torch.equal(planted.coins, again.coins)
    assert not torch.equal(planted.coins, other.coins)
    assert 160 < int(planted.coins.sum()) < 240
    held = planted.task.inputs(planted.positions.order).flatten(1)
    assert torch.equal(held.isfinite().all(1), planted.coins == 1)
    assert planted.visible.inputs(planted.positions.order).isfinite().all()


def test_a_canarys_gradient_is_far_above_the_clip_norm_and_almost_orthogonal_to_others(task):
    planted = plant_canaries(task, 40, 0)
    gradients = sample_gradients(planted.visible, task.initial_row(), planted.positions.order)
    lengths = gradients.norm(dim=1)
    assert lengths.min() > 5
    assert lengths.median() > 50
    cosines = (gradients @ gradients.T) / (lengths[:, None] * lengths)
    assert (cosines - torch.eye(40)).abs().median() < 0.05


def seen_of(planted, task):
    """What a server sees of a run of one step of all samples, whose noise is from the seed."""
    server = LookingServer()
    settings = {"rounds": 1, "eval_every": 0, "local": {"batch_size": 0, "lr": 0.1}, "adversary": server}
    noise = {"sample_privacy": {"noise": 1.0, "seeded": True}}
    run = prepare(planted.visible, fl.FedAvg(), resolve({**settings, **noise})).composition
    run = dataclasses.replace(run, task=task)
    play_round(run, Inline(run.runtime()), initial_state(run))
    return server.seen


def test_a_canary_whose_coin_says_out_counts_as_zero_and_one_that_is_in_as_the_clip_norm(task):
    """With the same noise the updates differ by the unit gradients of the canaries that are out, times lr / samples."""
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    planted = plant_canaries(task, 40, 0)
    for held, full in zip(seen_of(planted, planted.task), seen_of(planted, planted.visible), strict=True):
        (client,) = held.clients
        start, end = planted.positions.starts[client : client + 2].tolist()
        out = planted.positions.order[start:end][planted.coins[start:end] == 0]
        gradients = sample_gradients(planted.visible, held.row, out).double()
        steps = -0.1 / held.samples * (gradients / gradients.norm(dim=1, keepdim=True)).sum(0)
        assert torch.allclose(full.trained - held.trained, steps, atol=1e-7)


@pytest.mark.parametrize("number", [19, 5000])
def test_numbers_that_do_not_fit_are_refused(task, number):
    with pytest.raises(FedloomError, match=f"canaries={number}: give at least 20, and at most as many as"):
        plant_canaries(task, number, 0)


def test_inputs_that_are_no_numbers_are_refused(task):
    made = task.federation
    words = {**made.columns, "x": made.columns["x"].long()}
    whole = dataclasses.replace(task, federation=dataclasses.replace(made, columns=words), prepare=None, made_from={})
    with pytest.raises(FedloomError, match="canaries are inputs of numbers"):
        plant_canaries(whole, 20, 0)
