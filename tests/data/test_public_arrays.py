"""A communal or a server set of arrays, and a stream, in ``fl.task_of``: the same task as from a file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.targets import IGNORED

DRAW = np.random.default_rng(0)
X, Y = DRAW.normal(size=(120, 1, 4, 4)), np.arange(120) % 4
MORE_X, MORE_Y = DRAW.normal(size=(20, 1, 4, 4)), np.arange(20) % 4
STREAM = {"tasks": 2, "rounds": 1}
LOCAL = {"lr": 0.1, "batch_size": 16}
FRAME = pd.DataFrame(
    {"age": DRAW.normal(50, 9, 60), "ward": ["a", "b", "c"] * 20, "label": [0, 1] * 30, "client": [0, 0, 1] * 20}
)


def federation():
    return fl.from_arrays(X, Y, np.arange(120) // 40)


@pytest.mark.parametrize(
    ("method", "setting", "labelled", "others"),
    [
        ("fedmd", "communal", True, {}),
        ("dsfl", "communal", False, {}),
        ("fld", "communal", True, {}),
        ("feddf", "server_set", False, {}),
        ("fedrcil", "communal", True, {"stream": STREAM}),
        ("fedavgexemplars", "communal", True, {"stream": STREAM}),
    ],
)
def test_a_run_on_arrays_is_byte_for_byte_the_run_on_files(method, setting, labelled, others, tmp_path):
    np.savez(tmp_path / "own.npz", x=X, y=Y, client=np.arange(120) // 40)
    np.savez(tmp_path / "more.npz", x=MORE_X, **({"y": MORE_Y} if labelled else {}))
    file = {setting: {"path": str(tmp_path / "more.npz")}}
    by_file = fl.task("own", path=str(tmp_path / "own.npz"), **file, **others)
    by_array = fl.task_of(federation(), **{setting: (MORE_X, MORE_Y) if labelled else MORE_X}, **others)
    runs = [fl.run(task, method, rounds=2, local=LOCAL) for task in (by_file, by_array)]
    assert runs[0].records == runs[1].records
    assert len(runs[0].records) > 0


def test_the_samples_are_those_given_and_notes_and_records_name_them():
    task = fl.task_of(federation(), communal=(MORE_X, MORE_Y), server_set=MORE_X[:3])
    held = task.federation
    assert held.columns["y"][held.communal].tolist() == MORE_Y.tolist()
    assert torch.equal(held.columns["x"][held.server], torch.from_numpy(MORE_X[:3]).float())
    assert held.columns["y"][held.server].tolist() == [IGNORED] * 3
    assert (held.communal_labelled, held.server_labelled) == (True, False)
    assert held.notes[-1] == "server_set: 3 samples that only the server has, arrays in memory, without labels."
    assert task.python_objects["communal"] == task.python_objects["server_set"] == "arrays in memory"
    assert "communal" not in task.made_from


def test_a_config_holds_what_it_can_hold(tmp_path):
    np.savez(tmp_path / "own.npz", x=X, y=Y, client=np.arange(120) // 40)
    task = fl.task_of(fl.read(tmp_path / "own.npz"), communal=0.2, stream=STREAM)
    assert task.made_from["communal"]["share"] == 0.2
    again = fl.task(**task.made_from)
    assert torch.equal(again.federation.communal, task.federation.communal)
    assert again.federation.tasks == task.federation.tasks


def test_a_frame_is_encoded_as_the_tasks_table():
    own = fl.read(FRAME)
    more = pd.DataFrame({"ward": ["b", "zz"], "age": [300.0, 400.0]})
    held = fl.task_of(own, communal=(more, [1, 0]), server_set=more).federation
    assert held.columns["x"][held.communal][:, held.plan.features.index("age")].tolist() == [300.0, 400.0]
    assert held.columns["y"][held.communal].tolist() == [1, 0]


def test_a_pair_may_be_a_list_and_two_samples_are_not_a_pair():
    pair = fl.task_of(federation(), communal=[MORE_X, MORE_Y]).federation
    assert pair.columns["y"][pair.communal].tolist() == MORE_Y.tolist()
    two = fl.task_of(federation(), communal=[MORE_X[0], MORE_X[1]]).federation
    assert (len(two.communal), two.communal_labelled) == (2, False)


def test_copies_of_test_samples_are_left_out():
    held = fl.task_of(federation(), communal=np.concatenate([X, MORE_X])).federation
    tested = len(held.test.order) + len(held.global_test)
    assert tested > 0
    assert len(held.communal) == len(X) - tested + len(MORE_X)


def test_several_input_columns_are_a_mapping():
    own = fl.from_arrays({"a": X[:, 0, 1], "b": X[:, 0, 0]}, Y, np.arange(120) // 40)
    held = fl.task_of(own, communal={"b": MORE_X[:, 0, 0], "a": MORE_X[:, 0, 1]}).federation
    assert torch.equal(held.columns["x/b"][held.communal], torch.from_numpy(MORE_X[:, 0, 0]).float())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"communal": (MORE_X, MORE_Y, MORE_Y)}, "communal: give the inputs x, or a pair"),
        ({"communal": (0.2, 0.3)}, "communal: give the inputs x, or a pair"),
        ({"communal": MORE_X[:, :, :2]}, r"communal: an input has shape \(1, 2, 4\), but the task needs \(1, 4, 4\)"),
        (
            {"server_set": (MORE_X, MORE_Y[:5])},
            r"server_set: 20 inputs and labels of shape \(5,\): give one",
        ),
        ({"server_set": (MORE_X, MORE_Y + 7)}, "server_set: the label 7 of row 1 is out of range"),
        ({"server_set": {"x": MORE_X}}, "server_set: the task has other inputs: give one array of inputs"),
        ({"communal": FRAME}, "communal is a frame, but the task's data are not a table: give an array"),
        ({"communal": "public.npz"}, "give a share between 0 and 1, or a table"),
        ({"communal": []}, r"communal: x has shape \(0,\)"),
        ({"communal": {"pfad": "a"}}, "pfad"),
        ({"stream": [0, 1]}, "stream"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(given, message):
    with pytest.raises(FedloomError, match=message) as caught:
        fl.task_of(federation(), **given)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    assert len(str(caught.value)) < 250


def test_numbers_cannot_be_left_out():
    lengths = fl.from_arrays(X[:, 0, 0], X[:, 0, 1, 0], np.arange(120) // 40)
    with pytest.raises(FedloomError, match="samples without labels are for tasks with classes"):
        fl.task_of(lengths, communal=MORE_X[:, 0, 0])


def test_arrays_for_an_encoded_table_are_refused():
    with pytest.raises(FedloomError, match="whose columns are encoded: give a pandas frame"):
        fl.task_of(fl.read(FRAME), communal=np.zeros((3, 4)))


def test_samples_are_set_aside_before_the_data_change():
    streaming = fl.task_of(federation(), stream=STREAM).federation
    for setting in ("communal", "server_set"):
        with pytest.raises(FedloomError, match=f"^{setting}: these data change in later rounds"):
            fl.task_of(streaming, **{setting: MORE_X})
