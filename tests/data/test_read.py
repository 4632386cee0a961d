"""A user's own data: every format in, every mistake named in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import fedloom.data as fd
from fedloom.core.errors import FedloomError
from support import phones


def csv_file(path: Path, rows: int = 40, client: bool = True) -> Path:
    lines = ["age,height,label" + (",client" if client else "")]
    for row in range(rows):
        lines.append(f"{row + 30},{row * 0.5},{'cat' if row % 2 else 'dog'}" + (f",site {row % 4}" if client else ""))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_csv_with_clients_and_names(tmp_path: Path) -> None:
    made = fd.read(csv_file(tmp_path / "a.csv"))
    assert made.names == [f"site {k}" for k in range(4)]
    assert list(made.class_names) == ["cat", "dog"]
    assert made.columns["x"].shape == (40, 2)
    assert made.columns["x"].dtype == torch.float32
    assert made.columns["x"][3].tolist() == [33.0, 1.5]
    assert made.columns["y"][:2].tolist() == [1, 0]


def test_a_csv_without_clients_is_divided_where_the_user_asks_for_it_and_says_so(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "a.csv", client=False)
    assert fd.read(path, clients=4).notes[-1] == "4 clients are made up: the samples are divided by iid"
    assert fd.read(path, partition="dirichlet(1)").clients == 10
    assert fd.read(path, clients=3, partition="dirichlet(1)", ignore=["age"]).columns["x"].shape == (40, 1)


def test_data_that_name_no_client_are_asked_whose_they_are(tmp_path: Path) -> None:
    """Ten made-up clients were never mentioned, and the column that names them became a feature."""
    rows = [f"{n},{n % 7},ward-{n % 5},{n % 2},{n}" for n in range(60)]
    (tmp_path / "stays.csv").write_text("\n".join(["age,bed,ward,label,hospital_id", *rows]).replace(",59", ",58"))
    with pytest.raises(FedloomError) as caught:
        fd.read(tmp_path / "stays.csv")
    assert str(caught.value) == (
        "stays.csv does not say whose samples these are: give the column that names the client with --client-column "
        "COLUMN (client=...); 'ward' (5 values) may be one, or let clients be made up with --clients 10 (clients=10) "
        "or --partition 'dirichlet(0.1)' (partition=...)."
    )
    with pytest.raises(FedloomError, match="own data does not say whose samples these are: give client= with one"):
        fd.from_arrays(np.zeros((6, 1)), np.arange(6) % 2)


def test_clients_that_replace_the_datas_own_are_named_as_made_up(tmp_path: Path) -> None:
    made = fd.read(csv_file(tmp_path / "a.csv"), partition="shards(2)", clients=4)
    assert made.notes[-1].startswith("4 clients are made up, in place of the data's own: the samples are divided by ")
    assert not any("made up" in note for note in fd.read(tmp_path / "a.csv").notes)


def test_numbered_clients_are_in_number_order() -> None:
    made = fd.from_arrays(np.zeros((60, 1)), np.arange(60) % 3, np.array([str(row % 12) for row in range(60)]))
    assert made.names == [str(client) for client in range(12)]


def test_npz_and_parquet_give_the_same(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    from pyarrow import parquet

    x = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)
    y, client = np.arange(30) % 3, np.arange(30) // 10
    np.savez(tmp_path / "a.npz", x=x, y=y, client=client)
    parquet.write_table(arrow.table({"a": x[:, 0], "b": x[:, 1], "label": y, "client": client}), tmp_path / "a.parquet")
    one, two = fd.read(tmp_path / "a.npz"), fd.read(tmp_path / "a.parquet")
    assert one.columns["x"].equal(two.columns["x"])
    assert one.train.order.equal(two.train.order)
    assert list(one.names) == list(two.names) == ["0", "1", "2"]
    parquet.write_table(arrow.table({"a": [[1], [2, 3]], "label": [0, 1]}), tmp_path / "b.parquet")
    with pytest.raises(FedloomError, match=r"column 'a' is list<.*which is not a number, a text or a time: ignore"):
        fd.read(tmp_path / "b.parquet")


def leaf(users: dict[str, int], label: int = 0) -> str:
    data = {
        u: {"x": [[float(i), 1.0] for i in range(n)], "y": [(i + label) % 2 for i in range(n)]}
        for u, n in users.items()
    }
    return json.dumps({"users": list(users), "num_samples": list(users.values()), "user_data": data})


def test_leaf_train_and_test_folders_are_the_clients_own_parts(tmp_path: Path) -> None:
    for part, users in (("train", {"f1": 8, "f2": 6}), ("test", {"f1": 2, "f2": 3})):
        (tmp_path / part).mkdir()
        (tmp_path / part / "all.json").write_text(leaf(users))
    made = fd.read(tmp_path)
    assert made.names == ["f1", "f2"]
    assert made.train.sizes.tolist() == [8, 6]
    assert made.test.sizes.tolist() == [2, 3]
    assert len(made.global_test) == 5
    (tmp_path / "test" / "more.json").write_text(leaf({"f9": 2}))
    with pytest.raises(FedloomError, match="client f9 is in test but not in train"):
        fd.read(tmp_path)


def test_one_leaf_file(tmp_path: Path) -> None:
    path = tmp_path / "all_data.json"
    path.write_text(leaf({"a": 10, "b": 12}))
    assert fd.read(path, valid_share=0.1).clients == 2
    path.write_text(json.dumps({"user_data": {"a": {"x": ["abc"], "y": ["d"]}}}))
    with pytest.raises(FedloomError, match="inputs of user a are text"):
        fd.read(path)
    path.write_text(json.dumps({"user_data": {"a": {"x": [[1], [1, 2]], "y": [0, 1]}}}))
    with pytest.raises(FedloomError, match="inputs of user a differ in length"):
        fd.read(path)
    path.write_text("[]")
    with pytest.raises(FedloomError, match="not a LEAF file"):
        fd.read(path)


def test_one_npz_per_client(tmp_path: Path) -> None:
    for part, count in (("train", 9), ("test", 4)):
        (tmp_path / part).mkdir()
        for client in range(11):
            x = np.full((count, 1, 4, 4), client, dtype=np.float32)
            np.savez(tmp_path / part / f"{client}.npz", x=x, y=np.arange(count) % 3)
    made = fd.read(tmp_path)
    assert made.names == [str(client) for client in range(11)]
    assert set(made.train.sizes.tolist()) == {9}
    assert (made.columns["x"][made.test[10]] == 10).all()


def test_pfllibs_pickled_files_are_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    np.savez_compressed(tmp_path / "train" / "0.npz", data=np.array({"x": np.zeros(2), "y": np.zeros(2)}, dtype=object))
    with pytest.raises(FedloomError, match=r"pickled object, which Fedloom never loads.*numpy\.savez\(file, x="):
        fd.read(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.csv is empty"),
        ("a,label\n", "a header and no rows"),
        ("a,b\n1,2\n", "a.csv has no column 'label': say which one is to be predicted"),
        ("label\n1\n", "no feature column"),
        ("a,a,label\n1,2,0\n", "the column 'a' twice"),
        ("a,label\n1,0\n2\n", "row 2: 1 cells where the header has 2"),
        ("a,label\n" + "".join(f"{n},0\n" for n in range(30)) + "x,1\n", "column 'a', row 31: 'x' is not a number"),
        ("a,label\n1,0\n-inf,1\n", "column 'a', row 2 is infinite"),
        ("a,label\n1,0\n2,-1\n", "label -1 of row 2 is out of range"),
        ("a,label\n1,0\n2,1.5\n", "label of row 2 is 1.5"),
        ("a,label\n1,\n2,\n", "column 'label' is empty in every row"),
        ("a,label\n5,0\n5,1\n", "no column to learn from: a: left out, it is 5 in every training sample"),
        ("a,label\n1,0\n2,5\n", "label 5 of row 2 is out of range: labels run from 0 to 2"),
        ("a,label\n1,0\n", "has 1 sample"),
    ],
)
def test_a_wrong_csv_is_named_by_column_and_row(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(FedloomError, match=message) as caught:
        fd.read(tmp_path / "a.csv", classes=3, clients=2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("x", "y", "more", "message"),
    [
        ([[1], [1, 2]], [0, 1], {}, r"sample 2 has shape \(2,\), and the others \(1,\)"),
        ([["a"], ["b"]], [0, 1], {}, "not numbers"),
        ([1, 2], [0, 1], {}, "x has shape"),
        ([[1.0], [2.0]], [0], {}, "one label each"),
        ([[1.0], [2.0]], [0, 1], {"client": [1]}, "clients of shape"),
        ([[1.0], [2.0]], [0, 900_000], {}, "look like identifiers"),
        ([[1.0], [2.0]], [0, 1], {"clients": 9}, "clients=9 is more than the 2 samples"),
        (np.zeros((0, 2)), [], {}, "has no samples"),
    ],
)
def test_wrong_arrays_are_refused_in_a_sentence(x, y, more: dict, message: str) -> None:
    with pytest.raises(FedloomError, match=message):
        fd.from_arrays(x, y, **more)


def test_wrong_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FedloomError, match="does not exist"):
        fd.read(tmp_path / "no.csv")
    (tmp_path / "bikes.csv").write_text("")
    with pytest.raises(FedloomError, match=r"bike\.csv does not exist: .* Did you mean 'bikes\.csv'\?"):
        fd.read(tmp_path / "bike.csv")
    (tmp_path / "a.xls").write_text("")
    with pytest.raises(FedloomError, match=r"'\.xls' cannot be read"):
        fd.read(tmp_path / "a.xls")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FedloomError, match=r"no \*\.json file"):
        fd.read(tmp_path / "empty")


def test_a_misspelt_argument_is_named_with_the_nearest_one() -> None:
    with pytest.raises(FedloomError, match=r"unknown argument of fl\.read 'taget'\. Did you mean 'target'\?"):
        fd.read([], taget="y")
    with pytest.raises(FedloomError, match=r"unknown argument of fl\.read 'sed'\. Did you mean 'seed'\?"):
        fd.read([], sed=1)


def test_labels_may_be_truth_values_and_clients_zero_is_an_error() -> None:
    made = fd.from_arrays(np.zeros((20, 1)), np.arange(20) % 2 == 0, clients=2)
    assert made.columns["y"][:2].tolist() == [1, 0]
    with pytest.raises(FedloomError, match="clients=0"):
        fd.from_arrays(np.zeros((20, 1)), np.arange(20) % 2, clients=0)


def test_arrays_are_not_copied() -> None:
    x = np.zeros((100, 3), dtype=np.float32)
    assert fd.from_arrays(x, np.arange(100) % 2, clients=2).columns["x"].data_ptr() == x.ctypes.data


def test_statistics_are_of_the_training_samples() -> None:
    x = np.random.default_rng(0).normal([1e4, 5.0, 3.0], [2.0, 0.1, 0.0], (500, 3)).astype(np.float32)
    made = fd.from_arrays(x, np.arange(500) % 2, clients=5)
    mean, std = fd.input_statistics(made)
    own = x[made.train.order.numpy()].astype(np.float64)
    assert mean.numpy() == pytest.approx(own.mean(0), rel=1e-6)
    assert std[:2].numpy() == pytest.approx(own.std(0)[:2], rel=1e-4)
    assert std[2] == 1


# -- several input columns


def test_a_dict_of_arrays_becomes_input_columns_in_its_order() -> None:
    x, y, phone = phones.arrays()
    made, plain = fd.from_arrays(x, y, phone), phones.joined_federation()
    assert list(made.columns) == ["x/accelerometer", "x/gyroscope", "y"]
    for part in ("train", "test", "valid"):
        assert torch.equal(getattr(made, part).order, getattr(plain, part).order)
    mean, std = fd.input_statistics(made, "x/gyroscope")
    whole_mean, whole_std = fd.input_statistics(plain)
    assert torch.equal(mean, whole_mean[4:])
    assert torch.equal(std, whole_std[4:])


def test_an_npz_without_x_has_its_other_arrays_as_columns(tmp_path: Path) -> None:
    path = phones.write(tmp_path / "phones.npz", subject_height=np.zeros((120, 1)))
    made = fd.read(path, ignore=["subject_height"])
    wanted = phones.federation()
    assert all(torch.equal(made.columns[name], wanted.columns[name]) for name in wanted.columns)
    assert list(made.columns) == list(wanted.columns)
    assert "x/subject_height" in fd.read(path).columns


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"gyroscope": np.zeros((119, 3))}, r"differ in length \(accelerometer has 120, gyroscope has 119\)"),
        ({"gyroscope": np.zeros(120)}, r"column gyroscope: gyroscope has shape \(120,\)"),
        ({"gyroscope": np.full((120, 3), "a")}, r"column gyroscope: the inputs are texts \('a'\), not numbers"),
        ({"gyroscope": np.full((120, 3), np.inf)}, "gyroscope: column 0, row 1 is infinite"),
        ({"y": np.zeros((120, 2))}, "'y' cannot be the name of an input column"),
        ({"a/b": np.zeros((120, 2))}, "'a/b' cannot be the name of an input column"),
        ({"a.b": np.zeros((120, 2))}, "'a.b' cannot be the name of an input column"),
    ],
)
def test_columns_that_are_none_are_refused(change: dict[str, np.ndarray], sentence: str) -> None:
    x, y, phone = phones.arrays()
    with pytest.raises(FedloomError, match=sentence):
        fd.from_arrays({**x, **change}, y, phone)


def test_no_columns_are_refused() -> None:
    with pytest.raises(FedloomError, match="x has no input columns"):
        fd.from_arrays({}, np.zeros(3))


def test_an_npz_with_one_array_that_is_not_called_x_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", inputs=np.zeros((4, 2)), y=np.zeros(4))
    with pytest.raises(FedloomError, match="has no array 'x'"):
        fd.read(tmp_path / "a.npz")


def test_tables_of_a_folder_that_have_the_client_column_are_pieces_of_one_table(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    from pyarrow import feather, parquet

    draw = np.random.default_rng(0)
    columns = {"a": draw.normal(size=60), "label": np.arange(60) % 2, "ward": np.arange(60) % 3}
    table = arrow.table(columns)
    for folder, endings in (("parquets", ["parquet"] * 3), ("mixed", ["arrow", "feather", "parquet"])):
        (tmp_path / folder).mkdir()
        for number, ending in enumerate(endings):
            path, piece = tmp_path / folder / f"part-{number}.{ending}", table.slice(20 * number, 20)
            if ending == "parquet":
                parquet.write_table(piece, path)
            elif ending == "feather":
                feather.write_feather(piece, str(path))
            else:
                with arrow.ipc.new_stream(str(path), piece.schema) as writer:
                    writer.write_table(piece)
    parquet.write_table(table, tmp_path / "whole.parquet")
    whole = fd.read(tmp_path / "whole.parquet", client="ward")
    for folder in ("parquets", "mixed"):
        made = fd.read(tmp_path / folder, client="ward")
        assert list(made.names) == ["0", "1", "2"]
        assert made.columns["x"].equal(whole.columns["x"])
        assert made.train.order.equal(whole.train.order)
    per_client = fd.read(tmp_path / "parquets", ignore=["ward"])
    assert list(per_client.names) == ["part-0", "part-1", "part-2"]
    (tmp_path / "mixed" / "part-0.arrow").write_bytes(b"nothing of the kind")
    with pytest.raises(FedloomError, match=r"part-0\.arrow is not a readable Arrow file"):
        fd.read(tmp_path / "mixed", client="ward")
