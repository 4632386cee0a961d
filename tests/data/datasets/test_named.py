"""The named data sets: what they give, and what is said when their files are not there."""

from __future__ import annotations

import functools
import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import fedloom.data as fd
from fedloom.core.errors import FedloomError
from fedloom.core.inputs import input_names, input_shapes
from fedloom.data.datasets.texts import CHARACTERS, read_shakespeare, read_stackexchange
from fedloom.data.folder import find, read_arrays, read_tsv_columns, write_arrays, write_tsv
from support.paths import DATA_FOLDER

PEOPLE = {"mnist-writers": 539, "har": 30, "har-columns": 30}


@functools.lru_cache(maxsize=1)
def samples_of(name: str) -> fd.Samples:
    return fd.dataset(name).samples(DATA_FOLDER)


def real(name: str, clients: int | None = None, seed: int = 0) -> fd.Federation:
    entry = fd.dataset(name)
    if not entry.is_present(DATA_FOLDER):
        pytest.skip(f"{name}: no {entry.file} in the data folder")
    return fd.federate(samples_of(name), entry.partition, clients or entry.clients, seed=seed)


@pytest.mark.slow
def test_importing_data_imports_nothing_heavy() -> None:
    code = (
        "import sys, fedloom.data; "
        "print([m for m in ('sklearn', 'matplotlib', 'pyarrow', 'pandas', 'PIL') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_digits_are_always_there() -> None:
    made = fd.load("digits", clients=50, partition=fd.dirichlet(0.1), seed=3)
    x = made.columns["x"]
    assert x.shape == (1797, 1, 8, 8)
    assert x.dtype == torch.float32
    assert 0 == x.min() < x.max() == 1
    assert made.clients == 50
    assert made.train.sizes.min() >= 8


@pytest.mark.parametrize("name", sorted(fd.DATASETS))
@pytest.mark.slow
def test_a_data_set_is_what_its_entry_says(name: str) -> None:
    entry = fd.dataset(name)
    made = real(name)
    y, several = made.columns["y"], isinstance(entry.shape, dict)
    assert input_shapes(made.columns) == entry.shape
    assert made.classes == entry.classes
    assert made.clients == PEOPLE.get(name, made.clients)
    assert y.dtype == torch.int64
    assert y.max() < entry.classes
    assert (made.test.sizes >= 1).all()
    assert len(made.global_test) > 0
    order = torch.cat([made.train.order, made.test.order, made.global_test])
    assert len(order.unique()) == len(order)
    for column in input_names(made.columns):
        x = made.columns[column]
        if entry.kind == "image" and name != "digits":
            assert x.dtype == torch.uint8
        if not entry.mean:
            continue
        mean = entry.mean[column.removeprefix("x/")] if several else entry.mean
        scaled = x[:: max(1, len(x) // 2000)].float() / (255 if x.dtype == torch.uint8 else 1)
        axes = [axis for axis in range(scaled.dim()) if axis != 1]
        assert torch.allclose(scaled.mean(axes), torch.tensor(mean), atol=0.03)
    assert json.loads(json.dumps(fd.describe(made)))["clients"] == made.clients


def test_a_seeded_choice_of_natural_clients() -> None:
    one, two = real("har", clients=5, seed=1), real("har", clients=5, seed=2)
    assert one.clients == two.clients == 5
    assert list(one.names) != list(two.names)


def test_har_windows_of_different_parts_do_not_overlap() -> None:
    made = real("har")
    x = made.columns["x"]
    test = {row.numpy().tobytes() for row in x[made.test.order][:, 0, :64]}
    test |= {row.numpy().tobytes() for row in x[made.test.order][:, 0, 64:]}
    for half in (slice(0, 64), slice(64, 128)):
        assert not any(row.numpy().tobytes() in test for row in x[made.train.order][:, 0, half])


def halves(x: torch.Tensor, positions: torch.Tensor) -> set[bytes]:
    return {row.numpy().tobytes() for half in (slice(0, 64), slice(64, 128)) for row in x[positions][:, 0, half]}


@pytest.mark.parametrize("partition", ["iid", "dirichlet(0.5)"])
def test_har_windows_do_not_overlap_when_subjects_are_not_the_clients(partition: str) -> None:
    real("har")
    made = fd.federate(samples_of("har"), fd.partitioner(partition), 20, valid_share=0.1)
    x = made.columns["x"]
    parts = (made.train.order, made.valid.order, made.test.order, made.global_test)
    for one, two in itertools.combinations(parts, 2):
        assert not halves(x, one) & halves(x, two)


@pytest.mark.parametrize("partition", ["iid", "power-law"])
def test_shakespeare_windows_do_not_overlap_when_roles_are_not_the_clients(partition: str) -> None:
    real("shakespeare")
    samples = samples_of("shakespeare")
    made = fd.federate(samples, fd.partitioner(partition), 30, valid_share=0.1)
    side = torch.full((len(made.columns["y"]),), -1)
    for number, part in enumerate((made.train.order, made.valid.order, made.test.order, made.global_test)):
        side[part] = number
    role = torch.from_numpy(samples.blocks)
    for near in range(1, samples.gap + 1):
        both = (role[near:] == role[:-near]) & (side[near:] >= 0) & (side[:-near] >= 0)
        assert side[near:][both].equal(side[:-near][both])
    assert samples.gap == 4  # windows of 81 characters, every 20


@pytest.mark.parametrize("partition", ["iid", "dirichlet(0.1)", "shards(2)"])
def test_frames_of_one_sign_are_on_one_side_with_one_client(partition: str) -> None:
    real("gtsrb")
    samples = samples_of("gtsrb")
    made = fd.federate(samples, fd.partitioner(partition), 20, valid_share=0.1)
    parts = (made.train, made.valid, made.test)
    tracks = [set(samples.group[part[client]].tolist()) for part in parts for client in range(20)]
    tracks.append(set(samples.group[made.global_test].tolist()))
    assert sum(map(len, tracks)) == len(set.union(*tracks)) == 667 + 221


def test_official_test_images_of_signs_have_no_track(tmp_path: Path) -> None:
    """The official test set has other signs than the training set, and does not say which frames are of one sign."""
    images = np.zeros((6, 3, 32, 32), np.uint8)
    arrays = {"train_images": images[:4], "train_labels": np.array([0, 0, 1, 1], np.uint8)}
    arrays |= {"test_images": images[4:], "test_labels": np.array([0, 1], np.uint8)}
    write_arrays(tmp_path / "gtsrb.npz", arrays | {"train_track": np.array([0, 0, 0, 3], np.int16)})
    assert len(set(fd.dataset("gtsrb").samples(tmp_path).group.tolist())) == 3 + 2
    write_arrays(tmp_path / "gtsrb.npz", arrays)
    with pytest.raises(FedloomError, match="no array 'train_track'"):
        fd.dataset("gtsrb").samples(tmp_path)


def test_shakespeare_windows_are_text_and_the_next_character(tmp_path: Path) -> None:
    text = [f"Line {number} of what the king has to say, and some more words." for number in range(30)]
    path = tmp_path / "shakespeare_roles.tsv.gz"
    write_tsv(path, ["play", "role", "line"], [("a_play", "KING", line) for line in text] + [("a_play", "FOOL", "No")])
    found = read_shakespeare(path, stride=7)
    whole = "\n".join(text)
    x, y = found.columns["x"], found.columns["y"]
    assert list(found.names) == ["King (a play)"]
    assert found.gap == 11
    for window in range(len(x)):
        assert "".join(CHARACTERS[i] for i in x[window]) == whole[7 * window : 7 * window + 80]
        assert CHARACTERS[y[window]] == whole[7 * window + 80]
    assert len(set(CHARACTERS)) == 80


def test_stackexchange_pieces_are_words_and_the_next_words(tmp_path: Path) -> None:
    path = tmp_path / "stackexchange_users.tsv.gz"
    long = " ".join(["again"] * 25)
    rows = [("s", "2", "2020-01-02", "b a"), ("s", "2", "2020-01-01", "a a c"), ("s", "10", "2020-01-01", long)]
    write_tsv(path, ["site", "user", "date", "text"], rows)
    found = read_stackexchange(path)
    again, a, b, c = 4, 5, 6, 7  # by frequency, then by name
    assert found.classes == 10_004
    assert list(found.names) == ["s/10", "s/2"]
    assert found.natural.tolist() == [0, 0, 1, 1]
    x, y = found.columns["x"], found.columns["y"]
    assert x[0].tolist() == [1, *[again] * 19]
    assert y[0].tolist() == [again] * 20
    assert y[1].tolist() == [*[again] * 5, 2, *[-100] * 14]
    assert x[2, :5].tolist() == [1, a, a, c, 0]
    assert y[2, :5].tolist() == [a, a, c, 2, -100]
    assert x[3, :3].tolist() == [1, b, a]


def test_a_missing_file_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDLOOM_DATA", str(tmp_path))
    with pytest.raises(FedloomError, match=r"`fedloom data get mnist --from FILE`.*folder that has mnist\.npz"):
        fd.load("mnist")
    assert fd.data_folder() == tmp_path
    assert not fd.dataset("mnist").is_present()


def test_a_wrong_name_gets_a_suggestion() -> None:
    with pytest.raises(FedloomError, match="Did you mean 'cifar10'"):
        fd.load("cifarten")
    assert fd.dataset("Fashion_MNIST").name == "fashion-mnist"


def test_an_unknown_reader_option_is_refused() -> None:
    with pytest.raises(FedloomError, match="has no option strid"):
        fd.load("digits", strid=3)


def test_arrays_survive_the_format_and_objects_do_not(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_arrays(path, {"x": np.arange(3), "names": np.array(["a", "b"])})
    assert read_arrays(path, ["x"])["names"].tolist() == ["a", "b"]
    with pytest.raises(FedloomError, match="has no array 'y'"):
        read_arrays(path, ["y"])
    with pytest.raises(FedloomError, match="Python objects"):
        write_arrays(path, {"x": np.array([{}, 1], dtype=object)})
    np.savez(path, x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(FedloomError, match="pickled Python objects, which Fedloom never loads"):
        read_arrays(path)
    path.write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(FedloomError, match="not a readable"):
        read_arrays(path)
    with pytest.raises(FedloomError, match="looked in"):
        find("mnist", "mnist.npz", tmp_path)


def test_tables_name_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv.gz"
    write_tsv(path, ["a", "b"], [("1\t1", "2\n"), ("3", "4")])
    assert read_tsv_columns(path, ["b", "a"]) == {"b": ["2", "4"], "a": ["1 1", "3"]}
    with pytest.raises(FedloomError, match="no column 'c'"):
        read_tsv_columns(path, ["c"])
    (tmp_path / "u.tsv").write_text("a\tb\n1\t2\n1\n")
    with pytest.raises(FedloomError, match="row 2: 1 cells"):
        read_tsv_columns(tmp_path / "u.tsv", ["a"])
