"""Data that are Python objects: torch datasets, Hugging Face datasets, frames."""

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

import fedloom as fl
from fedloom.core.errors import FedloomError

X, Y, CLIENT = torch.randn(40, 3), torch.arange(40) % 2, torch.arange(40) % 4


class Samples(Dataset):
    def __init__(self, *keys):
        self.keys = keys

    def __len__(self):
        return 40

    def __getitem__(self, place):
        values = {"image": X[place], "label": int(Y[place]), "client": f"c{CLIENT[place]}", "id": place}
        return {key: values[key] for key in self.keys}


def test_torch_datasets_of_tuples_are_read_as_they_are():
    made = fl.read(TensorDataset(X, Y), clients=4)
    assert torch.equal(made.columns["x"], X)
    assert torch.equal(made.columns["y"], Y)
    assert fl.read(TensorDataset(X, Y, CLIENT)).names == ["0", "1", "2", "3"]


def test_torch_datasets_of_dicts_have_names():
    made = fl.read(Samples("image", "label", "client"))
    assert made.names == ["c0", "c1", "c2", "c3"]
    assert torch.equal(made.columns["x"], X)
    with pytest.raises(FedloomError, match="the column 'id' of Samples is not an array: ignore it"):
        fl.read(Samples("image", "label", "id"))
    assert fl.read(Samples("image", "label", "id"), ignore=["id"], clients=2).clients == 2
    with pytest.raises(FedloomError, match="Samples has no column 'outcome': it has image, label"):
        fl.read(Samples("image", "label"), target="outcome")


def test_a_frame_is_a_table():
    pandas = pytest.importorskip("pandas", reason="frames need pandas")
    columns = {"age": X[:, 0].numpy(), "ward": ["a", "b"] * 20, "days": X[:, 1].numpy() * 3, "site": CLIENT}
    frame = pandas.DataFrame(columns)
    made = fl.read(frame, target="days", client="site")
    assert made.names == ["0", "1", "2", "3"]
    assert made.columns["x"].shape == (40, 4)
    task = fl.task_of(made)
    assert task.kind == "number"
    assert task.python_objects["data"] == "arrays in memory"


def test_what_is_none_of_these_is_refused():
    with pytest.raises(FedloomError, match="int cannot be read: give a path, a pandas frame"):
        fl.read(3)


def test_hugging_face_datasets_are_read_as_they_are():
    datasets = pytest.importorskip("datasets", reason="needs Hugging Face's datasets")
    table = datasets.Dataset.from_dict(
        {"age": X[:, 0].tolist(), "ward": ["a", None] * 20, "label": Y.tolist(), "client": CLIENT.tolist()}
    ).cast_column("label", datasets.ClassLabel(names=["well", "sick"]))
    made = fl.read(table)
    assert list(made.class_names) == ["sick", "well"]
    assert made.names == ["0", "1", "2", "3"]
    assert any("ward: a category" in note for note in made.notes)
    arrays = datasets.Dataset.from_dict({"x": X.tolist(), "label": Y.tolist()})
    assert torch.allclose(fl.read(arrays, clients=2).columns["x"], X)
    pictures = datasets.Dataset.from_dict(
        {"image": [np.full((4, 5, 3), number, dtype=np.uint8) for number in range(40)], "label": Y.tolist()}
    ).cast_column("image", datasets.Image())
    assert fl.read(pictures, clients=2).columns["x"].shape == (40, 3, 4, 5)
    assert fl.read(datasets.DatasetDict({"train": table})).names == made.names


SYMPTOMS = [["cough", "fever"], [], ["fever"], ["rash"]] * 10


class Patients(Dataset):
    def __len__(self):
        return len(X)

    def __getitem__(self, place):
        return X[place], SYMPTOMS[place], int(CLIENT[place])


def of_huggingface():
    datasets = pytest.importorskip("datasets", reason="needs Hugging Face's datasets")
    return datasets.Dataset.from_dict({"x": X.tolist(), "label": SYMPTOMS, "client": CLIENT.tolist()})


def of_pandas():
    pandas = pytest.importorskip("pandas", reason="frames need pandas")
    return pandas.DataFrame({"a": X[:, 0].numpy(), "b": X[:, 1].numpy(), "label": SYMPTOMS, "client": CLIENT.numpy()})


@pytest.mark.parametrize("make", [Patients, of_huggingface, of_pandas])
def test_lists_of_names_are_labels_of_which_a_sample_may_have_none(make):
    made = fl.read(make(), empty_labels="none")
    assert list(made.class_names) == ["cough", "fever", "rash"]
    assert made.columns["y"].tolist() == 10 * [[1, 1, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1]]
