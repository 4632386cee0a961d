"""The server set: a share of the training data, another data set with the same inputs, or a file."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.targets import IGNORED
from fedloom.data.changes.server_set import ServerSet, with_server_set
from support.synthetic import federation


def test_a_share_leaves_the_clients():
    plain = fl.task("digits", clients=4, seed=1).federation
    held = fl.task("digits", clients=4, seed=1, communal=0.2, server_set={"share": 0.25, "labelled": False}).federation
    assert not torch.isin(held.server, torch.cat([held.train.order, held.communal, held.global_test])).any()
    assert len(held.server) + len(held.communal) + len(held.train.order) == len(plain.train.order)
    assert held.columns["y"][held.server].unique().tolist() == [IGNORED]
    assert (held.server_labelled, held.server_classes, held.communal_labelled) == (False, 10, True)
    assert (held.columns["y"][held.communal] >= 0).all()


def test_another_data_set_has_the_same_inputs():
    with pytest.raises(FedloomError, match=r"server_set: the inputs of digits have shape \(1, 8, 8\), those of the"):
        with_server_set(federation([40]), ServerSet(data="digits"))


def test_another_data_set_is_appended_with_labels_of_its_own():
    digits = fl.task("digits", clients=3).federation
    x = digits.columns["x"]
    others = fl.from_arrays(x.numpy(), np.arange(len(x)) % 2, classes=2, clients=3)  # the same images, other labels
    made = with_server_set(others, ServerSet(data="digits", share=0.5))
    assert made.server_classes == 10
    assert made.columns["y"][made.server].max() == 9
    measured = {bytes(row.numpy().tobytes()) for row in x[torch.cat([others.test.order, others.global_test])]}
    assert not measured & {row.numpy().tobytes() for row in made.columns["x"][made.server]}
    assert any("digits are test or validation samples too and left out" in note for note in made.notes)
    plain = with_server_set(others, ServerSet(data="digits", labelled=False))
    assert plain.columns["y"][plain.server].unique().tolist() == [IGNORED]
    assert torch.equal(made.train.order, others.train.order)


@pytest.mark.parametrize("setting", ["server_set", "communal"])
def test_a_file_without_targets_has_no_labels_also_if_nobody_says_so(setting, tmp_path):
    """It was refused for the array y, or the column of the target, that it lacks."""
    np.savez(tmp_path / "plain.npz", x=np.zeros((3, 1, 8, 8)))
    made = fl.task("digits", clients=3, **{setting: {"path": str(tmp_path / "plain.npz")}}).federation
    assert not {"server_set": made.server_labelled, "communal": made.communal_labelled}[setting]
    assert made.notes[-1].endswith("plain.npz, without labels.")
    (tmp_path / "own.csv").write_text("a,client,label\n" + "".join(f"{n},{n % 3},{n % 2}\n" for n in range(30)))
    (tmp_path / "plain.csv").write_text("a\n" + "".join(f"{n}.5\n" for n in range(5)))
    files = {"path": str(tmp_path / "own.csv"), setting: {"path": str(tmp_path / "plain.csv")}}
    table = fl.task("own", **files).federation
    assert not {"server_set": table.server_labelled, "communal": table.communal_labelled}[setting]
    positions = {"server_set": table.server, "communal": table.communal}[setting]
    assert table.columns["y"][positions].tolist() == [IGNORED] * 5


def test_a_run_writes_the_setting_and_builds_the_same_task_again(tmp_path):
    path = tmp_path / "server.npz"
    np.savez(path, x=np.zeros((3, 1, 8, 8)))
    task = fl.task("digits", clients=3, server_set={"path": str(path), "labelled": False})
    assert len(task.federation.server) == 3
    fl.run(task, "fedavg", rounds=1, out=tmp_path / "run")
    assert len(fl.resume(tmp_path / "run").records) == 2
    np.savez(path, x=np.ones((3, 1, 8, 8)))
    with pytest.raises(FedloomError, match="data"):
        fl.resume(tmp_path / "run", rounds=2)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "give the share of the training data, another data set, or a path"),
        ({"data": "digits", "path": "a.npz"}, "data and path both name samples: give one"),
        ({"path": "a.npz", "share": 0.5}, "a file is used as a whole: leave out share, or path"),
        ({"data": "digits", "share": 2}, r"server_set\.share=2: it must be at most 1"),
        ({"shares": 0.5}, "shares"),
        ({"share": 1}, "it must be above 0 and less than 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, says):
    with pytest.raises(FedloomError, match=says):
        fl.task("digits", clients=3, server_set=settings)
