"""A communal set: so many samples per class out of the test set, and nobody is evaluated on them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.data.communal_set import with_communal
from support.synthetic import federation


@pytest.fixture(scope="module")
def digits():
    return fl.task("digits", clients=10).federation


def test_it_has_the_asked_number_of_each_class_and_leaves_the_global_test_set(digits):
    made = with_communal(digits, 10, seed=3)
    assert torch.bincount(digits.columns["y"][made.communal]).tolist() == [10] * 10
    assert not torch.isin(made.communal, made.global_test).any()
    together = torch.cat([made.communal, made.global_test]).sort().values
    assert torch.equal(together, digits.global_test.sort().values)
    assert made.train is digits.train


def test_it_leaves_clients_test_parts_too():
    """Where the global test set is the clients' own test parts together, as with published splits."""
    held = federation([40, 60, 50], classes=4)
    made = with_communal(held, 5)
    for client in range(3):
        before, after = held.test[client], made.test[client]
        assert torch.equal(after, before[~torch.isin(before, made.communal)])
    assert len(made.test.order) == len(held.test.order) - 20


def test_a_rare_class_gives_at_most_half_of_its_samples():
    held = federation([40], classes=3)
    y = torch.zeros(40, dtype=torch.int64)
    y[:5], y[5] = 1, 2
    made = with_communal(replace(held, columns={**held.columns, "y": y}), 10)
    assert torch.bincount(y[made.communal], minlength=3).tolist() == [10, 2, 0]


def test_the_seed_chooses(digits):
    assert torch.equal(with_communal(digits, 3, seed=1).communal, with_communal(digits, 3, seed=1).communal)
    assert not torch.equal(with_communal(digits, 3, seed=1).communal, with_communal(digits, 3, seed=2).communal)


def test_none_asked_for_is_none_taken(digits):
    assert with_communal(digits, 0) is digits


def test_the_task_setting_takes_them_from_everyone_who_is_compared(tmp_path):
    task = fl.task("digits", clients=5, communal_per_class=4, seed=2)
    plain = fl.task("digits", clients=5, seed=2)
    assert len(task.federation.communal) == 40
    assert len(task.federation.global_test) == len(plain.federation.global_test) - 40
    history = fl.run(task, "fedavg", rounds=1, out=tmp_path / "run")
    accuracy = history.last("global_model/global_test/accuracy") * len(task.federation.global_test)
    assert accuracy == pytest.approx(round(accuracy), abs=1e-6)  # a whole number of the samples that are left
    assert "communal_per_class = 4" in (tmp_path / "run" / "config.toml").read_text()
    assert len(fl.resume(tmp_path / "run").records) == 2  # the task is made again from its config: the same data


def test_data_of_ones_own_take_the_setting_too(tmp_path):
    from fedloom.runs.resolve_config import resolve, task_from_config

    path = tmp_path / "own.csv"
    path.write_text("a,label\n" + "".join(f"{number},{number % 2}\n" for number in range(200)))
    values = {"task": {"name": "own", "path": str(path), "clients": 4, "communal_per_class": 3}}
    assert len(task_from_config(resolve(values)).federation.communal) == 6


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"global_test": torch.zeros(0, dtype=torch.int64)}, "global test set, which has 0 samples"),
        ({"communal": torch.arange(3)}, "communal samples can be set aside only once"),
    ],
)
def test_what_cannot_be_is_refused(change, says):
    with pytest.raises(FedloomError, match=says):
        with_communal(replace(federation([40]), **change), 2)


def test_numbers_that_cannot_be_are_refused():
    held = federation([40])
    with pytest.raises(FedloomError, match="communal_per_class=-1: it must not be negative"):
        with_communal(held, -1)
    measured = replace(held, columns={**held.columns, "y": torch.rand(40)})
    with pytest.raises(FedloomError, match="these data have no classes"):
        with_communal(measured, 2)
