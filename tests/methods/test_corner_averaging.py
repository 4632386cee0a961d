"""Averaging of corners: every weight is the mean over the clients that have it."""

from __future__ import annotations

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.model.corners import corner_columns
from fedloom.methods.corner_averaging import average_corners

WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}
WIDE, NARROW = "mlp:hidden=[16]", "mlp:hidden=[4]"
METHODS = ("heterofl", "fjord")


def play(task, method, **settings):
    return fl.run(task, method, seed=2, local=WORK, **{"rounds": 2, **settings})


def test_every_entry_is_the_mean_over_those_who_have_it():
    row = torch.tensor([9.0, 9.0, 9.0, 9.0])
    wide = (torch.tensor([0, 1, 2]), torch.tensor([[1.0, 2.0, 3.0]]))
    narrow = (torch.tensor([0]), torch.tensor([[4.0], [7.0]]))
    found = average_corners(row, [wide, narrow], torch.tensor([0.5, 0.25, 0.25]))
    assert found.tolist() == [0.5 * 1 + 0.25 * 4 + 0.25 * 7, 2.0, 3.0, 9.0]  # nobody has the last


@pytest.mark.parametrize("method", METHODS)
def test_with_one_width_it_is_fedavg_to_the_byte(method):
    task = fl.task("digits", clients=4, model=WIDE, seed=1)
    same = fl.task("digits", clients=4, models={WIDE: 1.0}, seed=1)
    expected = play(task, "fedavg")
    for one in (task, same):
        found = play(one, method)
        assert torch.equal(found.row, expected.row)
        assert found.total("bytes_up") == expected.total("bytes_up")


@pytest.mark.parametrize("method", METHODS)
def test_weights_outside_the_corner_change_only_in_rounds_with_wide_clients(method):
    task = fl.task("digits", clients=4, models={WIDE: [0], NARROW: [1, 2, 3]}, seed=1)
    outside = torch.ones(task.layout.width, dtype=torch.bool)
    outside[corner_columns(task.layout, task.of_architecture(1).layout)] = False
    seen = set()
    for seed in range(4):
        history = fl.run(task, method, seed=seed, local=WORK, rounds=1, selection={"number": 1})
        wide = history.records[-1]["selected"] == [0]
        changed = history.row != task.initial_row()
        assert bool(changed[outside].any()) == wide
        assert bool(changed[~outside].any())
        seen.add(wide)
    assert seen == {True, False}


@pytest.mark.parametrize("method", METHODS)
def test_models_that_are_no_widths_of_one_network_are_refused(method):
    task = fl.task("digits", clients=4, models={WIDE: 0.5, "mlp:hidden=[16,8]": 0.5})
    with pytest.raises(FedloomError, match=r"mlp:hidden=\[16,8\] is not the server's model made narrower"):
        play(task, method)
    shallower = fl.task("digits", clients=4, models={"mlp:hidden=[64]": 0.5, "logistic": 0.5})  # its head fits
    with pytest.raises(FedloomError, match=r"logistic is not the server's model made narrower: it has no tensor"):
        play(shallower, method)
    wider = fl.task("digits", clients=4, models={NARROW: 0.5, WIDE: 0.5})
    with pytest.raises(FedloomError, match=r"made narrower: its tensor .* has shape"):
        play(wider, method)


@pytest.mark.parametrize("method", METHODS)
def test_a_server_that_is_wider_than_all_clients_is_refused(method):
    task = fl.task("digits", clients=4, model=WIDE, models={"mlp:hidden=[8]": 0.5, NARROW: 0.5})
    with pytest.raises(FedloomError, match="wider than those of all clients"):
        play(task, method)


@pytest.mark.parametrize("parts", [{"aggregation": "median"}, {"server_optimizer": {"kind": "yogi"}}], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_what_needs_one_mean_of_all_models_is_refused(method, parts):
    task = fl.task("digits", clients=4, models={WIDE: 0.5, NARROW: 0.5})
    with pytest.raises(
        FedloomError, match=rf"(median makes one|server_optimizer steps after one mean) .*, and {method} averages every"
    ):
        play(task, method, **parts)
