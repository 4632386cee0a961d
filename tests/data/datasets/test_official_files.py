"""Official files, tiny but in the publishers' layout, converted, checked and loaded."""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import json
import struct
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import fedloom.data as fd
from fedloom.core.errors import FedloomError
from fedloom.data.datasets import archive
from fedloom.data.datasets import download as get
from fedloom.data.datasets.official_files import ACTIVITIES, CHANNELS, IDX_FILES

random = np.random.default_rng(0)


def idx(array: np.ndarray) -> bytes:
    code = {"u1": 8, "i4": 12}[array.dtype.str[1:]]
    head = struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


def mnist_files(writers: bool = True) -> dict[str, bytes]:
    files = {}
    for part, count in (("train", 60), ("t10k", 20)):
        labels = (np.arange(count) % 10).astype(np.uint8)
        files[f"{part}-images-idx3-ubyte.gz"] = gzip.compress(
            idx(random.integers(0, 255, (count, 28, 28)).astype("u1"))
        )
        files[f"{part}-labels-idx1-ubyte.gz"] = gzip.compress(idx(labels))
        if writers:
            more = np.stack([labels, np.full(count, 4), np.arange(count) // 15 + (part == "t10k") * 9], 1).astype("i4")
            name = "train" if part == "train" else "test"
            files[f"qmnist-{name}-labels-idx2-int.gz"] = gzip.compress(idx(more))
    return files


def folder_of(path: Path, files: dict[str, bytes]) -> Path:
    path.mkdir()
    for name, data in files.items():
        (path / name).write_bytes(data)
    return path


def tar_of(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as out:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))
    return path


def zip_bytes(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as out:
        for name, data in files.items():
            out.writestr(name, data)
    return made.getvalue()


def test_mnist_with_qmnist_labels_gives_writers(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "official", mnist_files())
    target = get.get("mnist-writers", source, folder=tmp_path / "data")
    assert target == tmp_path / "data" / "mnist.npz"
    assert fd.load("mnist-writers", folder=tmp_path / "data").names == [f"writer {w}" for w in range(4)]
    assert len(fd.load("mnist", folder=tmp_path / "data", clients=3).global_test) == 20
    assert [p.name for p in (tmp_path / "data").iterdir()] == ["mnist.npz"]


def test_mnist_without_writers_says_so(tmp_path: Path) -> None:
    source = tmp_path / "files.zip"
    source.write_bytes(zip_bytes({f"raw/{name}": data for name, data in mnist_files(writers=False).items()}))
    get.get("mnist", source, folder=tmp_path)
    assert fd.load("mnist", folder=tmp_path, clients=3).clients == 3
    with pytest.raises(FedloomError, match="QMNIST label files"):
        fd.load("mnist-writers", folder=tmp_path)


def test_plain_idx_files_of_fashion_mnist_under_their_other_name(tmp_path: Path) -> None:
    plain = {n.removesuffix(".gz").replace("-idx", ".idx"): gzip.decompress(d) for n, d in mnist_files(False).items()}
    get.get("fashion-mnist", folder_of(tmp_path / "official", plain), folder=tmp_path)
    assert fd.load("fashion-mnist", folder=tmp_path, clients=2).class_names[0] == "T-shirt/top"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: files.pop("t10k-labels-idx1-ubyte.gz"), "has no file 't10k-labels-idx1-ubyte'"),
        (lambda files: files.update({"train-images-idx3-ubyte.gz": gzip.compress(b"hello there")}), "not an idx file"),
        (lambda files: files.update({"train-images-idx3-ubyte.gz": b"no gzip"}), "damaged"),
        (
            lambda files: files.update({"train-images-idx3-ubyte.gz": files["train-images-idx3-ubyte.gz"][:-200]}),
            "ends too early",
        ),
        (
            lambda files: files.update({"train-labels-idx1-ubyte.gz": gzip.compress(idx(np.zeros(9, "u1")))}),
            "does not belong|images and",
        ),
    ],
)
def test_damaged_files_are_refused_and_the_old_file_stays(tmp_path: Path, change, message: str) -> None:
    get.get("mnist", folder_of(tmp_path / "good", mnist_files()), folder=tmp_path / "data")
    before = (tmp_path / "data" / "mnist.npz").read_bytes()
    files = mnist_files()
    change(files)
    with pytest.raises(FedloomError, match=message):
        get.get("mnist", folder_of(tmp_path / "bad", files), folder=tmp_path / "data")
    assert (tmp_path / "data" / "mnist.npz").read_bytes() == before
    assert len(list((tmp_path / "data").iterdir())) == 1


def cifar10_files() -> dict[str, bytes]:
    def batch(count: int) -> bytes:
        records = random.integers(0, 255, (count, 3073)).astype("u1")
        records[:, 0] = np.arange(count) % 10
        return records.tobytes()

    files = {f"cifar-10-batches-bin/data_batch_{part}.bin": batch(10) for part in range(1, 6)}
    names = b"airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n"
    return files | {"cifar-10-batches-bin/test_batch.bin": batch(10), "cifar-10-batches-bin/batches.meta.txt": names}


def test_cifar10_binary(tmp_path: Path) -> None:
    files = cifar10_files()
    get.get("cifar10", tar_of(tmp_path / "cifar-10-binary.tar.gz", files), folder=tmp_path)
    made = fd.load("cifar10", folder=tmp_path, clients=4)
    assert made.columns["x"].shape == (60, 3, 32, 32)
    assert made.class_names[3] == "cat"
    record = np.frombuffer(files["cifar-10-batches-bin/data_batch_2.bin"], "u1").reshape(-1, 3073)[4]
    assert (made.columns["x"][14].numpy().ravel() == record[1:]).all()
    assert made.columns["y"][14] == record[0]


def test_a_broken_off_archive_is_refused(tmp_path: Path) -> None:
    source = tar_of(tmp_path / "cifar-10-binary.tar.gz", cifar10_files())
    source.write_bytes(source.read_bytes()[:-50_000])
    with pytest.raises(FedloomError, match="damaged"):
        get.get("cifar10", source, folder=tmp_path)


def test_cifar100_binary(tmp_path: Path) -> None:
    records = random.integers(0, 255, (200, 3074)).astype("u1")
    records[:, 1] = np.arange(200) % 100
    files = {"train.bin": records.tobytes(), "test.bin": records[:100].tobytes()}
    files |= {"fine_label_names.txt": "\n".join(f"f{i}" for i in range(100)).encode(), "coarse_label_names.txt": b"c"}
    source = tar_of(tmp_path / "c.tar.gz", {f"cifar-100-binary/{name}": data for name, data in files.items()})
    get.get("cifar100", source, folder=tmp_path)
    made = fd.load("cifar100", folder=tmp_path, clients=4, partition="iid")
    assert made.columns["y"][:100].tolist() == list(range(100))
    assert made.class_names[7] == "f7"


def test_the_pickled_cifar_archive_is_refused(tmp_path: Path) -> None:
    source = tar_of(tmp_path / "cifar-10-python.tar.gz", {"cifar-10-batches-py/test_batch": b"\x80\x04"})
    with pytest.raises(FedloomError, match="pickled batches, which Fedloom never loads"):
        get.get("cifar10", source, folder=tmp_path)


def test_har_from_the_zip_within_a_zip(tmp_path: Path) -> None:
    files = {}
    for part, people in (("train", (1, 3)), ("test", (2,))):
        labels = np.tile(np.repeat(np.arange(1, 7), 10), len(people))
        table = np.random.default_rng(len(people)).normal(size=(len(labels), 128))
        text = "\n".join(" ".join(f"{value: .7e}" for value in row) for row in table).encode()
        for channel in CHANNELS:
            files[f"UCI HAR Dataset/{part}/Inertial Signals/{channel}_{part}.txt"] = text
        files[f"UCI HAR Dataset/{part}/y_{part}.txt"] = "\n".join(map(str, labels)).encode()
        files[f"UCI HAR Dataset/{part}/subject_{part}.txt"] = "\n".join(map(str, np.repeat(people, 60))).encode()
        files[f"__MACOSX/UCI HAR Dataset/{part}/._y_{part}.txt"] = b"junk"
    source = tmp_path / "har.zip"
    source.write_bytes(zip_bytes({"UCI HAR Dataset.zip": zip_bytes(files), "UCI HAR Dataset.names": b""}))
    get.get("har", source, folder=tmp_path)
    made = fd.load("har", folder=tmp_path)
    assert list(made.names) == ["subject 1", "subject 2", "subject 3"]
    assert len(made.class_names) == len(ACTIVITIES)
    assert (made.columns["x"][0, 0] - made.columns["x"][0, 8]).abs().max() == 0


def ppm(value: int) -> bytes:
    return b"P6 20 24 255\n" + bytes([value, 10, 20]) * (20 * 24)


def test_gtsrb_with_and_without_the_official_test_set(tmp_path: Path) -> None:
    training = {
        f"GTSRB/Final_Training/Images/{kind:05}/{track:05}_{shot:05}.ppm": ppm(kind)
        for kind in range(3)
        for track in range(5)
        for shot in range(2)
    }
    official = tmp_path / "official"
    official.mkdir()
    (official / "training.zip").write_bytes(zip_bytes(training))
    get.get("gtsrb", official / "training.zip", folder=tmp_path)
    made = fd.load("gtsrb", folder=tmp_path, clients=2)
    assert made.columns["x"].shape == (30, 3, 32, 32)
    assert len(made.global_test) == 6
    assert (made.columns["x"][:, 0, 5, 5] == made.columns["y"]).all()

    truth = b"Filename;Width;Height;ClassId\n00000.ppm;20;24;2\n00001.ppm;20;24;0\n"
    tests = {f"GTSRB/Final_Test/Images/0000{i}.ppm": ppm(kind) for i, kind in enumerate((2, 0))}
    (official / "test.zip").write_bytes(zip_bytes(tests))
    (official / "truth.zip").write_bytes(zip_bytes({"GT-final_test.csv": truth}))
    get.get("gtsrb", official, folder=tmp_path)
    made = fd.load("gtsrb", folder=tmp_path, clients=2)
    assert made.columns["y"][made.global_test].tolist() == [2, 0]
    assert made.columns["x"][made.global_test][:, 0, 5, 5].tolist() == [2, 0]


def test_shakespeare_from_leaf_and_from_a_table(tmp_path: Path) -> None:
    text = "To be, or not to be: that is the question whether tis nobler " * 20
    windows = {"x": [text[i : i + 80] for i in range(len(text) - 80)], "y": list(text[80:])}
    leaf = tmp_path / "all_data.json"
    leaf.write_text(json.dumps({"users": ["HAMLET_HAMLET"], "user_data": {"HAMLET_HAMLET": windows}}))
    get.get("shakespeare", leaf, folder=tmp_path)
    made = fd.load("shakespeare", folder=tmp_path, partition="natural", stride=5)
    assert list(made.names) == ["Hamlet (HAMLET)"]
    assert len(made.columns["x"]) == len(range(0, len(text.strip()) - 80, 5))
    table = tmp_path / "table.tsv"
    table.write_text("role\tplay\tline\n" + f"A\tp\t{text}\n")
    get.get("shakespeare", table, folder=tmp_path)
    assert list(fd.load("shakespeare", folder=tmp_path, partition="natural").names) == ["A (p)"]
    leaf.write_text("{}")
    with pytest.raises(FedloomError, match="not LEAF's Shakespeare"):
        get.get("shakespeare", leaf, folder=tmp_path)


def test_a_finished_file_is_checked_and_copied(tmp_path: Path) -> None:
    made = get.get("mnist", folder_of(tmp_path / "official", mnist_files()), folder=tmp_path / "one")
    sha = hashlib.sha256(made.read_bytes()).hexdigest()
    copy = get.get("mnist", made, sha256=sha, folder=tmp_path / "two")
    assert copy.read_bytes() == made.read_bytes()
    with pytest.raises(FedloomError, match="SHA-256"):
        get.get("mnist", made, sha256="0" * 64, folder=tmp_path / "two")
    with pytest.raises(FedloomError, match="has no array"):
        get.get("cifar100", made, folder=tmp_path / "two")
    assert not (tmp_path / "two" / "cifar100.npz").exists()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            del args

    folder = tmp_path / "served"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", folder
    server.shutdown()
    server.server_close()


def test_a_download_is_checked_before_it_is_used(
    tmp_path: Path, server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, folder = server
    source = tar_of(folder / "cifar-10-binary.tar.gz", cifar10_files())
    seen: list[int] = []
    with pytest.raises(FedloomError, match="its publisher states"):
        get.get("cifar10", address + source.name, folder=tmp_path)
    sha = hashlib.sha256(source.read_bytes()).hexdigest()
    get.get(
        "cifar10", address + source.name, sha256=sha, folder=tmp_path, progress=lambda done, _total: seen.append(done)
    )
    assert seen[-1] == source.stat().st_size
    assert fd.dataset("cifar10").is_present(tmp_path)
    with pytest.raises(FedloomError, match="could not be downloaded"):
        get.get("cifar10", address + "nothing.tar.gz", folder=tmp_path)

    for name, data in mnist_files(writers=False).items():
        (folder / name).write_bytes(data)
    monkeypatch.setitem(get.PUBLISHED_MD5, "mnist", {})
    get.get("mnist", address, folder=tmp_path)
    assert fd.dataset("mnist").is_present(tmp_path)
    assert len(IDX_FILES) == 4


def test_members_larger_than_the_limit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "LIMIT", 1000)
    (tmp_path / "z.zip").write_bytes(zip_bytes({"a": bytes(5000)}))
    sentence = "the member 'a' has 5,000 bytes, and such a file may have 1,000 bytes: give a smaller one"
    with archive.open_members(tmp_path / "z.zip") as members, pytest.raises(FedloomError, match=sentence):
        members.read("a")


def test_there_is_nothing_to_get_for_digits(tmp_path: Path) -> None:
    with pytest.raises(FedloomError, match="nothing to download"):
        get.get("digits", tmp_path)
    with pytest.raises(FedloomError, match="does not exist"):
        get.get("mnist", tmp_path / "no", folder=tmp_path)
