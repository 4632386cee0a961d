"""Records as they are written: each once, whole, and all again when the run went back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedloom.files.atomic_write import write_atomic
from fedloom.runs.folder.record_tail import RecordTail


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def lines(*rounds: int, **more: object) -> bytes:
    return b"".join(json.dumps({"round": number, **more}).encode() + b"\n" for number in rounds)


def rounds(tail: RecordTail) -> list[int]:
    return [record["round"] for record in tail.new()]


def test_each_record_is_seen_once_as_it_is_written(path):
    tail = RecordTail(path)
    assert rounds(tail) == []  # not there yet
    path.write_bytes(lines(0, 1))
    assert rounds(tail) == [0, 1]
    assert rounds(tail) == []
    with open(path, "ab") as file:
        file.write(lines(2))
    assert rounds(tail) == [2]
    assert tail.rewritten == 0


def test_a_line_that_is_still_being_written_is_waited_for(path):
    whole, tail = lines(1, metrics={}), RecordTail(path)
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        assert rounds(tail) == []
    path.write_bytes(whole)
    assert rounds(tail) == [1]


def test_a_shorter_file_is_read_again(path):
    path.write_bytes(lines(0, 1, 2))
    tail = RecordTail(path)
    assert rounds(tail) == [0, 1, 2]
    path.write_bytes(lines(0, 1))
    assert rounds(tail) == [0, 1]
    assert tail.rewritten == 1


def test_a_file_that_was_cut_back_and_grew_past_its_old_end_is_read_again(path):
    path.write_bytes(lines(0, 1, 2))
    tail = RecordTail(path)
    tail.new()
    write_atomic(path, lines(0))  # as recover does it
    with open(path, "ab") as file:
        file.write(lines(1, 2, 3, 4))
    assert rounds(tail) == [0, 1, 2, 3, 4]
    assert tail.rewritten == 1


def test_a_file_that_was_overwritten_in_place_with_other_records_is_read_again(path):
    path.write_bytes(lines(0, 1, 2))
    tail = RecordTail(path)
    tail.new()
    with open(path, "r+b") as file:
        file.write(lines(0, 1, 3, 4, 5))
    assert rounds(tail) == [0, 1, 3, 4, 5]


def test_a_file_that_vanished_and_came_back_is_read_again(path):
    path.write_bytes(lines(0, 1))
    tail = RecordTail(path)
    tail.new()
    path.unlink()
    assert rounds(tail) == []
    path.write_bytes(lines(0))
    assert rounds(tail) == [0]
    assert tail.rewritten == 1


@pytest.mark.parametrize("line", [b"{", b"\xff\xfe", b"[" * 100_000, b"3", b"null", b'{"round": 1}{}'])
def test_a_line_that_is_no_object_is_counted_and_skipped(path, line):
    path.write_bytes(lines(0) + line + b"\n" + lines(2))
    tail = RecordTail(path)
    assert rounds(tail) == [0, 2]
    assert tail.damaged == 1
