"""Manifests: they notice any change of themselves, and files move aside or go when no checkpoint needs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.core.errors import FedloomError
from fedloom.runs.folder.manifest import (
    Damaged,
    Manifest,
    digest_of,
    extend_chain,
    find_file,
    newest_manifest,
    read_manifest,
    tidy,
    walk_chain,
    write_manifest,
)

names = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), max_size=20).filter(
    lambda name: name != "."
)
digests = st.text("0123456789abcdef", min_size=64, max_size=64)
names = st.text(max_size=20).filter(lambda name: Path(name).name == name)
manifests = st.builds(
    Manifest,
    round=st.integers(0, 999_999),
    files=st.dictionaries(names, digests, max_size=3),
    settings=st.dictionaries(names, st.lists(digests, max_size=2), max_size=2),
    records=st.integers(0, 10**9),
    length=st.integers(0, 10**12),
    chain=digests,
)


@given(manifests)
def test_a_manifest_is_read_back_as_it_was_written(manifest):
    assert Manifest.from_json(manifest.to_json()) == manifest


@given(manifests, st.data())
def test_any_change_of_a_byte_is_noticed(manifest, data):
    content = bytearray(manifest.to_json())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    try:
        found = Manifest.from_json(bytes(content))
    except ValueError:
        return
    assert found == manifest  # another spelling of the same


def test_the_chain_of_lines_is_that_of_each_line_after_the_one_before():
    one = digest_of(b"\n" + b"first")
    assert list(walk_chain([b"first", b"second"])) == [
        (0, 0, ""),
        (1, 6, one),
        (2, 13, digest_of(one.encode() + b"\nsecond")),
    ]
    assert extend_chain(one, b"second") == digest_of(one.encode() + b"\nsecond")


def make(folder: Path, number: int, *names: str) -> None:
    (folder / "checkpoints").mkdir(exist_ok=True)
    for name in names:
        if not find_file(folder, name).exists():
            (folder / "checkpoints" / name).write_bytes(name.encode())
    write_manifest(folder, Manifest(number, {name: digest_of(name.encode()) for name in names}))
    tidy(folder)


def test_three_checkpoints_stay_and_files_that_only_earlier_ones_need_are_aside(tmp_path):
    for number in range(1, 6):
        make(
            tmp_path,
            number,
            f"round-{number}.safetensors",
            "kept-1.safetensors" if number < 5 else "kept-5.safetensors",
        )
    checkpoints = tmp_path / "checkpoints"
    assert sorted(path.name for path in checkpoints.glob("*.safetensors")) == [
        "kept-5.safetensors",
        "round-5.safetensors",
    ]
    assert sorted(path.name for path in (checkpoints / "earlier").iterdir()) == [
        "kept-1.safetensors",
        "round-3.safetensors",
        "round-4.safetensors",
    ]
    assert [path.name for path in sorted(checkpoints.glob("manifest-*"))] == [
        f"manifest-00000{number}.json" for number in (3, 4, 5)
    ]


def test_a_file_that_is_needed_again_comes_back(tmp_path):
    make(tmp_path, 1, "round-1.safetensors", "best-1.safetensors")
    make(tmp_path, 2, "round-2.safetensors")
    assert find_file(tmp_path, "best-1.safetensors").parent.name == "earlier"
    make(tmp_path, 3, "round-3.safetensors", "best-1.safetensors")
    assert find_file(tmp_path, "best-1.safetensors").parent.name == "checkpoints"


def test_a_manifest_under_the_name_of_another_round_is_damaged(tmp_path):
    make(tmp_path, 1)
    path = tmp_path / "checkpoints" / "manifest-000001.json"
    path.rename(path.with_name("manifest-000002.json"))
    with pytest.raises(Damaged, match="is of another round"):
        newest_manifest(tmp_path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"null", json.dumps({"round": 1}).encode()])
def test_what_is_no_manifest_is_damaged(tmp_path, content):
    path = tmp_path / "manifest-000001.json"
    path.write_bytes(content)
    with pytest.raises(Damaged, match="is damaged"):
        read_manifest(path)


def test_a_later_format_is_named(tmp_path):
    write_manifest(tmp_path, Manifest(1, format=3))
    with pytest.raises(FedloomError, match=r"format 3, this one knows 2.*: upgrade Fedloom"):
        newest_manifest(tmp_path)
