"""Files that hold or claim more than the machine has are refused in one sentence, before memory or minutes are spent.

Every bomb here is real: a reader that took it would run out of memory, of the stack or of patience.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.data.folder import read_arrays, read_tsv_columns
from fedloom.data.media.image_plan import ImagePlan
from fedloom.data.read import read
from fedloom.data.readers.csv import csv_columns
from fedloom.data.readers.leaf import read_leaf
from fedloom.deploy.saved_model import model_at
from fedloom.files import limits
from fedloom.files.json_text import parse_json
from fedloom.files.limits import DEEPEST, MOST_COLUMNS, TooLarge, check_depth, gunzip, memory, read_limited
from fedloom.files.regular_file import read_regular
from fedloom.registry.validation import read_toml
from fedloom.tasks.flows.formats.read_flow import read_flow
from support.synthetic import small_task

GB = 10**9


@pytest.fixture(autouse=True)
def small_machine(monkeypatch):
    """A machine of 8 GB, whatever this one has."""
    monkeypatch.setattr(limits, "memory", lambda: 8 * GB)


def sparse(path: Path, size: int = 10 * GB) -> Path:
    """A file with a hole: it takes no room on the disk, and all of it in memory."""
    with open(path, "wb") as file:
        file.truncate(size)
    return path


def test_the_memory_is_that_of_the_machine_or_of_the_container(monkeypatch, tmp_path):
    memory.cache_clear()
    try:
        whole = memory()
        assert whole > 1 << 20
        for text, found in (("1048576\n", 1 << 20), ("max\n", None)):
            (tmp_path / "memory.max").write_text(text)
            monkeypatch.setattr(limits, "CGROUP", tmp_path / "memory.max")
            memory.cache_clear()
            assert memory() >= (found or whole)
            assert found is None or memory() == found
    finally:
        memory.cache_clear()


# -- files with holes


EIGHT = ImagePlan(height=8, width=8, channels=1)
READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a table": ("data.csv", csv_columns),
    "a federation": ("data.csv", lambda path: read(path, target="y")),
    "arrays": ("data.npz", read_arrays),
    "LEAF": ("data.json", read_leaf),
    "texts": ("data.tsv", lambda path: read_tsv_columns(path, ["a"])),
    "settings": ("run.toml", read_toml),
    "a flow": ("flow.json", read_flow),
    "an image": ("one.png", lambda path: EIGHT.read(path, path.name)),
    "facts": ("status.json", read_regular),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_file_with_a_hole_of_ten_gigabytes_is_not_read(reader, tmp_path):
    name, read = READERS[reader]
    with pytest.raises(FedloomError, match=r"10 GB, and|more than 16 MB"):
        read(sparse(tmp_path / name))


def test_a_hole_within_the_machines_memory_is_not_read_as_a_line(tmp_path):
    with pytest.raises(TooLarge, match="a line of more than 67,108,864 characters, so it is not a table"):
        csv_columns(sparse(tmp_path / "data.csv", GB))


def test_a_runs_folder_with_a_hole_is_refused(tmp_path):
    folder = tmp_path / "run"
    fl.run(small_task(), "fedavg", rounds=1, out=folder)
    for name in ("metrics.jsonl", "partition.json", "clients.json", "config.toml"):
        content = (folder / name).read_bytes()
        sparse(folder / name)
        with pytest.raises(FedloomError, match=f"{name} has 10 GB, and"):
            fl.History.load(folder)
        (folder / name).unlink()
        (folder / name).write_bytes(content)
    (checkpoint,) = (folder / "checkpoints").glob("round-*")
    sparse(checkpoint)
    with pytest.raises(FedloomError, match=r"safetensors has 10 GB, and"):
        fl.History.load(folder)


def test_a_saved_model_with_a_hole_is_refused(tmp_path):
    (tmp_path / "model").mkdir()
    sparse(tmp_path / "model" / "model.json")
    with pytest.raises(FedloomError, match=r"model.json has 10 GB, and such a file may have 16.8 MB"):
        model_at(tmp_path / "model")


# -- values that are nested deeply


DEEP = {
    "lists": "x = " + "[" * 50_000,
    "closed lists": "x = " + "[" * 900 + "]" * 900,
    "tables": "x = " + "{a=" * 50_000,
    "a dotted key": ".".join("a" * 20_000) + " = 1",
    "a dotted table": "[" + ".".join("a" * 20_000) + "]",
    "a dotted key in a table": "x = {" + " . ".join(["'a'"] * 20_000) + " = 1}",
}


@pytest.mark.parametrize("deep", DEEP)
def test_deep_toml_is_one_sentence(deep, tmp_path):
    (tmp_path / "run.toml").write_text(DEEP[deep])
    with pytest.raises(FedloomError, match=r"run.toml is nested (too|more than 64 levels) deep"):
        read_toml(tmp_path / "run.toml")


def test_what_only_looks_like_a_deep_key_is_read(tmp_path):
    values = ", ".join(["0.5"] * 500)
    (tmp_path / "run.toml").write_text(f'shares = [{values}]\nname = "{"x" * 2_000_000}"\nurl = "{"." * 300}"\n')
    assert len(read_toml(tmp_path / "run.toml")["shares"]) == 500


def test_depth_is_counted_exactly():
    value: object = 1
    for _ in range(DEEPEST - 1):
        value = [value]
    check_depth(value, "it")
    with pytest.raises(TooLarge):
        check_depth({"a": value}, "it")


def test_deep_json_is_one_sentence(tmp_path):
    deep = "[" * 200_000 + "]" * 200_000
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(deep)
    for reader in (read_leaf, read_flow):
        (tmp_path / "data.json").write_text(deep)
        with pytest.raises(FedloomError, match=r"nested too deeply|is not a LEAF file"):
            reader(tmp_path / "data.json")


# -- arrays that claim what they do not have


def npz_with(path: Path, header: bytes, body: bytes = bytes(64), packed: bool = False) -> Path:
    text = header.ljust(117) + b"\n"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        archive.writestr("x.npy", array)
        archive.writestr("y.npy", _npy(np.zeros(4)))
    return path


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_an_array_that_claims_petabytes_is_not_allocated(tmp_path):
    claims = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1000)}"
    path = npz_with(tmp_path / "data.npz", claims)
    with pytest.raises(TooLarge, match=r"the array 'x' claims 8,000,000,000,000,000 bytes and has 192"):
        read_arrays(path)
    with pytest.raises(TooLarge, match="claims"):
        read(path)


def test_a_single_array_that_claims_petabytes_is_not_allocated(tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1000)}".ljust(117) + b"\n"
    (tmp_path / "data.npz").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    with pytest.raises(FedloomError, match=r"is a single array and not an .npz"):
        read_arrays(tmp_path / "data.npz")


def test_a_zip_bomb_of_arrays_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "memory", lambda: 20 * 10**6)
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (50000000,)}"
    path = npz_with(tmp_path / "data.npz", header, bytes(50_000_000), packed=True)
    assert path.stat().st_size < 100_000
    with pytest.raises(TooLarge, match=r"data.npz, unpacked, has 50 MB, and this machine's memory allows 10 MB"):
        read_arrays(path)


def test_honest_arrays_are_read(tmp_path):
    arrays = {
        "x": np.arange(12.0).reshape(3, 4),
        "empty": np.zeros((0, 5)),
        "words": np.array(["é", "b"]),
        "one": np.array(7),
    }
    np.savez_compressed(tmp_path / "data.npz", **arrays)
    found = read_arrays(tmp_path / "data.npz")
    assert all(np.array_equal(found[name], array) for name, array in arrays.items())


# -- packed texts


def test_a_gzip_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "memory", lambda: 20 * 10**6)
    with pytest.raises(TooLarge, match="bomb has more than 10 MB when it is unpacked"):
        gunzip(gzip.compress(bytes(50_000_000)), "bomb")
    (tmp_path / "data.tsv.gz").write_bytes(gzip.compress(b"a\n" + b"b\n" * 20_000_000))
    with pytest.raises(TooLarge, match="when it is unpacked"):
        read_tsv_columns(tmp_path / "data.tsv.gz", ["a"])


def test_gzip_of_several_members_is_unpacked_and_half_a_one_is_not():
    assert gunzip(gzip.compress(b"one") + gzip.compress(b"two"), "it") == b"onetwo"
    with pytest.raises(FedloomError, match="it ends too early"):
        gunzip(gzip.compress(b"one" * 1000)[:-12], "it")


def test_a_packed_table_that_is_a_thousand_times_larger_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr("fedloom.data.readers.csv.SMALL", 1_000_000)
    rows = b"a,y\n" + (b"x" * 996 + b",2\n") * 20_000
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress(rows))
    with pytest.raises(TooLarge, match=r"data.csv.gz, unpacked, has .* MB, and such a file may have"):
        csv_columns(tmp_path / "data.csv.gz")


# -- wide tables


def test_a_table_of_two_hundred_thousand_columns_is_one_sentence(tmp_path):
    names = [f"c{number}" for number in range(200_000)]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    with pytest.raises(TooLarge, match=r"wide.csv has 200,000 columns, and a table may have 100,000: save it as an"):
        csv_columns(tmp_path / "wide.csv")
    with pytest.raises(TooLarge, match="200,000 columns"):
        read(tmp_path / "wide.csv", target="c0")


def test_the_widest_table_is_read_in_one_pass(tmp_path):
    names = [f"c{number}" for number in range(MOST_COLUMNS)]
    (tmp_path / "wide.csv").write_text("\n".join([",".join(names), *([",".join("1" for _ in names)] * 3)]) + "\n")
    found = csv_columns(tmp_path / "wide.csv")
    assert list(found) == names
    assert found["c7"].tolist() == [1.0, 1.0, 1.0]


def test_a_name_that_occurs_twice_is_found_among_many(tmp_path):
    names = [f"c{number}" for number in range(90_000)] + ["c5"]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    with pytest.raises(FedloomError, match="has the column 'c5' twice"):
        csv_columns(tmp_path / "wide.csv")


def test_a_wide_parquet_file_and_one_that_unpacks_to_more_than_there_is_are_refused(tmp_path, monkeypatch):
    arrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    import pyarrow.parquet as parquet

    from fedloom.data.readers.parquet import parquet_columns

    monkeypatch.setattr(limits, "memory", lambda: 20 * 10**6)
    parquet.write_table(arrow.table({"a": np.zeros(3_000_000)}), tmp_path / "long.parquet")
    assert (tmp_path / "long.parquet").stat().st_size < 1_000_000
    with pytest.raises(TooLarge, match=r"long.parquet, unpacked, has 24 MB"):
        parquet_columns(tmp_path / "long.parquet")
    monkeypatch.setattr(limits, "MOST_COLUMNS", 10)
    parquet.write_table(arrow.table({f"c{number}": [1] for number in range(11)}), tmp_path / "wide.parquet")
    with pytest.raises(TooLarge, match=r"wide.parquet has 11 columns"):
        parquet_columns(tmp_path / "wide.parquet")


# -- images and XML


def png(width: int, height: int, body: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [8, 100_000])
def test_an_image_that_unpacks_to_gigabytes_is_not_decoded(side, tmp_path):
    """One says so, and one has the right size and far more pixels than it says."""
    (tmp_path / "one.png").write_bytes(png(side, side, zlib.compress(bytes(200_000_000), 9)))
    if side == 8:
        found = EIGHT.read(tmp_path / "one.png", "one.png")  # as much as it says, and no more
        assert found.shape == (1, 8, 8)
        return
    with pytest.raises(FedloomError, match=r"one.png claims to have more than 50,000,000 pixels"):
        EIGHT.read(tmp_path / "one.png", "one.png")


def test_a_flow_with_entities_is_refused_before_they_expand(tmp_path):
    entities = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 30))
    (tmp_path / "bomb.bpmn").write_text(f'<!DOCTYPE b [<!ENTITY a0 "ha">{entities}]><b>&a29;</b>')
    with pytest.raises(FedloomError, match="document type or entity"):
        read_flow(tmp_path / "bomb.bpmn")


def test_a_small_file_is_read_as_it_is(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"a": 1}))
    assert parse_json(read_limited(tmp_path / "a.json")) == {"a": 1}
