"""A dataset per client, pairs of train and test parts, splits by name, and loaders."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset, SubsetRandomSampler, TensorDataset

import fedloom as fl
from fedloom.core.errors import FedloomError

X, Y = torch.randn(48, 3, generator=torch.Generator().manual_seed(0)), torch.arange(48) % 2


def part(start: int, end: int) -> TensorDataset:
    return TensorDataset(X[start:end], Y[start:end])


class Pairs(torch.utils.data.Dataset):
    """Samples (dict, target)."""

    def __len__(self):
        return 48

    def __getitem__(self, place):
        return {"left": X[place, :2], "right": X[place, 2:]}, int(Y[place])


def test_a_list_or_a_dictionary_of_datasets_has_a_client_each():
    for data, names in (
        ([part(0, 20), part(20, 30), part(30, 48)], ["0", "1", "2"]),
        ({"kiel": part(0, 20), "bonn": part(20, 48)}, ["bonn", "kiel"]),
    ):
        made = fl.read(data)
        assert list(made.names) == names
        assert torch.equal(made.columns["x"], X)
    everything = torch.cat([one[1] for one in (made.train, made.test)] + [made.global_test])
    assert {place for place in everything.tolist() if place < 20} == set(range(20))  # kiel's, which came first


def test_pairs_are_the_train_and_test_parts_of_a_client():
    made = fl.read({"a": (part(0, 16), part(16, 24)), "b": (part(24, 40), part(40, 48))})
    assert made.train[0].tolist() == list(range(16))
    assert made.test[1].tolist() == list(range(40, 48))
    assert len(made.global_test) == 16
    named = fl.read({"a": {"train": part(0, 16), "test": part(16, 24)}, "b": {"train": part(24, 48)}})
    assert named.test.sizes.tolist() == [8, 0]


def test_pairs_of_arrays_are_inputs_and_targets():
    made = fl.read([(X[:20].numpy(), Y[:20].numpy()), (X[20:], Y[20:])])
    assert torch.equal(made.columns["x"], X)
    assert made.clients == 2


def test_of_a_loader_the_dataset_is_read_and_its_shuffling_changes_nothing():
    plain = fl.read([DataLoader(part(0, 24), batch_size=8), DataLoader(part(24, 48))])
    shuffled = fl.read([DataLoader(part(0, 24), shuffle=True), DataLoader(part(24, 48), shuffle=True)])
    assert torch.equal(plain.columns["x"], shuffled.columns["x"])
    assert torch.equal(plain.train.order, shuffled.train.order)
    assert plain.notes[-1].startswith("of a DataLoader its dataset is read, in its own order: shuffling")
    chosen = DataLoader(part(0, 48), sampler=SubsetRandomSampler(range(10)))
    with pytest.raises(FedloomError, match=r"the DataLoader chooses samples with a SubsetRandomSampler: give .*Subset"):
        fl.read(chosen, clients=2)
    assert fl.read(Subset(part(0, 48), range(10)), clients=2).columns["x"].shape == (10, 3)


def test_samples_may_be_a_dictionary_of_inputs_and_a_target():
    made = fl.read(Pairs(), clients=3)
    assert list(made.columns) == ["x/left", "x/right", "y"]
    assert torch.equal(made.columns["x/right"], X[:, 2:])
    joined = fl.read([Pairs(), Pairs()])
    assert joined.columns["x/left"].shape == (96, 2)
    assert fl.run(fl.task_of(joined, "late-fusion"), rounds=1).stopped is None


def test_frames_per_client_are_one_table():
    pandas = pytest.importorskip("pandas", reason="frames need pandas")
    frame = pandas.DataFrame({"age": X[:, 0].numpy(), "ward": ["a", "b"] * 24, "label": ["ill", "well"] * 24})
    made = fl.read({"kiel": frame[:20], "bonn": frame[20:]})
    assert list(made.names) == ["bonn", "kiel"]
    assert made.columns["x"].shape == (48, 4)
    with pytest.raises(FedloomError, match="client kiel and client bonn differ in the column 'ward'"):
        fl.read({"kiel": frame[:20], "bonn": frame[20:].drop(columns="ward")})
    with pytest.raises(FedloomError, match="client bonn and client kiel are a table and arrays"):
        fl.read({"kiel": frame[:20], "bonn": part(20, 48)})


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([part(0, 9), 3], "client 1 is a int, which cannot be read: give a dataset, a DataLoader"),
        (
            {"a": part(0, 9), "b": TensorDataset(X[:9, :2], Y[:9])},
            r"client b, x: its samples have shape \(2,\), and those of client a \(3,\)",
        ),
        ({"a": part(0, 9), "b": TensorDataset(X[:9], Y[:9], Y[:9])}, "client b: its samples name a client too"),
        ({"a": {"train": part(0, 9), "more": part(9, 12)}}, "client a has the parts train, more: give train and"),
        ({"a": TensorDataset(X[:0], Y[:0])}, "client a has no samples: give at least two"),
        ([], "list cannot be read: give a path"),
    ],
)
def test_what_does_not_fit_is_named_by_its_client(data, sentence):
    with pytest.raises(FedloomError, match=sentence):
        fl.read(data)


def test_samples_of_other_keys_are_named():
    class Odd(Pairs):
        def __getitem__(self, place):
            inputs, label = super().__getitem__(place)
            return (inputs if place != 6 else {"left": inputs["left"]}), label

    with pytest.raises(FedloomError, match="Odd: sample 7 has not the keys of the first one, left, right, but left"):
        fl.read(Odd(), clients=2)


def test_splits_of_hugging_face_are_parts():
    datasets = pytest.importorskip("datasets", reason="needs Hugging Face's datasets")

    def split(start, end):
        values = {"x": X[start:end].tolist(), "label": Y[start:end].tolist(), "client": [f"c{n % 4}" for n in range(start, end)]}  # fmt: skip # noqa: E501
        return datasets.Dataset.from_dict(values)

    both = datasets.DatasetDict({"train": split(0, 32), "test": split(32, 48)})
    made = fl.read(both)
    assert made.names == ["c0", "c1", "c2", "c3"]
    assert set(made.train.order.tolist()) == set(range(32))
    assert set(made.test.order.tolist()) == set(range(32, 48))
    whole = fl.read(both, partition="iid", clients=3)
    assert whole.global_test.tolist() == list(range(32, 48))
    three = fl.read(datasets.DatasetDict({**both, "validation": split(0, 4)}))
    assert three.notes[-1].startswith("the validation part is joined with the training part")
    with pytest.raises(FedloomError, match="the dataset has the parts train, unsupervised: give train and"):
        fl.read(datasets.DatasetDict({"train": split(0, 9), "unsupervised": split(9, 12)}))
    per_client = [split(0, 24).remove_columns("client"), split(24, 48).remove_columns("client")]
    assert fl.read(per_client).clients == 2


def test_arrays_of_several_clients_keep_their_order_and_names():
    made = fl.read({str(k): (np.full((6, 2), k), np.arange(6) % 2) for k in range(12)})
    assert list(made.names) == [str(k) for k in range(12)]
    assert made.columns["x"][made.train[11]].unique().tolist() == [11]
