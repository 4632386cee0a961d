"""What clients keep under a name: rows and who has one, in memory and as named tensors."""

from __future__ import annotations

import pytest
import torch

from fedloom.core.kept_rows import KeptRows, pack_kept, unpack_kept

ROWS, HAS = torch.arange(6.0).view(3, 2), torch.tensor([True, False, True])
SOME = KeptRows(ROWS, HAS)


def test_who_has_kept_nothing_gets_the_default():
    assert SOME.or_default(torch.full((3, 2), 9.0)).tolist() == [[0, 1], [9, 9], [4, 5]]
    assert KeptRows.of_all(ROWS).or_default(torch.zeros(3, 2)) is ROWS
    assert torch.equal(KeptRows.of_nobody(ROWS).or_default(ROWS), ROWS)


@pytest.mark.parametrize("shape", [(3,), (3, 2), (3, 2, 2)])
def test_a_mask_chooses_rows_of_any_shape_and_who_has_them(shape):
    mask = torch.tensor([True, True, False])
    mixed = KeptRows.of_all(torch.ones(shape)).where(mask, KeptRows.of_nobody(torch.ones(shape)))
    assert mixed.rows.view(3, -1).mean(1).tolist() == [1, 1, 0]
    assert mixed.has.tolist() == mask.tolist()


def test_some_clients_in_the_order_of_their_places():
    some = SOME.only(torch.tensor([2, 1]))
    assert some.rows.tolist() == [[4, 5], [2, 3]]
    assert some.has.tolist() == [True, False]


@pytest.mark.parametrize("prefix", ["", "kept/"])
def test_named_tensors_come_back_as_what_was_kept(prefix):
    named = pack_kept({"head": SOME, "channel/0/row": KeptRows.of_all(ROWS)}, prefix)
    assert named.keys() == {f"{prefix}{name}" for name in ("head", "head/has", "channel/0/row", "channel/0/row/has")}
    found = unpack_kept(named, prefix)
    assert found.keys() == {"head", "channel/0/row"}
    assert found["head"].rows is ROWS
    assert found["head"].has.tolist() == HAS.tolist()


def test_other_tensors_beside_it_are_not_what_was_kept():
    assert unpack_kept({"reply/row": ROWS, "kept/lonely": ROWS}, "kept/") == {}


def test_the_mask_is_written_as_numbers_as_in_files_of_earlier_versions():
    assert pack_kept({"c": SOME})["c/has"].dtype is torch.float32
