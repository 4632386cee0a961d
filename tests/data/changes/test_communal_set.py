"""A communal set: so many samples per class out of the test set, and nobody is evaluated on them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.targets import IGNORED
from fedloom.data.changes.communal_set import Communal, with_communal, with_communal_set
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
    from fedloom.config.resolve import resolve, task_from_config

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
    with pytest.raises(FedloomError, match="communal_per_class=-1: it must be at least 0"):
        with_communal(held, -1)
    measured = replace(held, columns={**held.columns, "y": torch.rand(40)})
    with pytest.raises(FedloomError, match="these data have no classes"):
        with_communal(measured, 2)


def test_a_share_of_the_training_data_is_in_no_other_part_and_unlabelled_if_asked(digits):
    made = with_communal_set(digits, Communal(share=0.2), seed=3)
    assert len(made.communal) == pytest.approx(0.2 * len(digits.train.order), abs=5)
    assert not torch.isin(made.communal, torch.cat([made.train.order, made.test.order, made.global_test])).any()
    assert torch.equal(made.communal, made.communal.sort().values)
    assert torch.equal(made.communal, with_communal_set(digits, Communal(share=0.2), seed=3).communal)
    blind = with_communal_set(digits, Communal(share=0.2, labelled=False), seed=3)
    assert torch.equal(blind.communal, made.communal)
    assert not blind.communal_labelled
    assert blind.columns["y"][blind.communal].unique().tolist() == [IGNORED]
    assert torch.equal(digits.columns["y"][blind.train.order], blind.columns["y"][blind.train.order])


def test_a_number_a_table_and_a_config_are_the_same_task(tmp_path):
    from fedloom.config.resolve import resolve, task_from_config
    from fedloom.runs.folder.fingerprint import fingerprint

    made = [fl.task("digits", clients=3, communal=value) for value in (0.2, {"share": 0.2}, Communal(0.2))]
    config = resolve({"task": {"name": "digits", "clients": 3, "communal": 0.2}})
    assert len({fingerprint(task) for task in (*made, task_from_config(config))}) == 1
    assert fingerprint(fl.task("digits", clients=3, communal=0.3)) != fingerprint(made[0])
    assert made[0].made_from["communal"] == {"share": 0.2, "labelled": True}
    fl.run(made[0], "fedavg", rounds=1, out=tmp_path / "run")
    assert len(fl.resume(tmp_path / "run").records) == 2


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"communal": 0.2, "communal_per_class": 3}, "communal and communal_per_class both set samples aside"),
        ({"communal": {"labelled": True}}, "give the share of the training data, or the path of a file, not both"),
        ({"communal": 1.2}, r"communal\.share=1\.2: it must be less than 1"),
        ({"communal": "half"}, "communal"),
        ({"communal": {"part": 0.2}}, "part"),
        ({"communal": {"path": "nowhere.npz"}}, "nowhere.npz does not exist"),
    ],
)
def test_a_communal_set_that_cannot_be_is_refused(settings, says):
    with pytest.raises(FedloomError, match=says):
        fl.task("digits", clients=3, **settings)
