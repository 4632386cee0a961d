"""State that stays with clients."""

import torch

from fedloom.core.kept_rows import KeptRows, pack_kept
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.rounds import client_states as module
from fedloom.rounds.client_states import ClientStates
from support.pools import same
from support.synthetic import cohort, federation, mlp


def test_what_was_kept_is_read_back_and_others_have_nothing():
    keep = ClientStates(10)
    keep.write([2, 5], {"head": KeptRows.of_all(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))})
    found = keep.read([5, 7])
    assert found["head"].rows.tolist() == [[3.0, 4.0], [0.0, 0.0]]
    assert found["head"].has.tolist() == [True, False]


def test_changes_since_the_last_checkpoint_restore_the_same_state():
    keep, copy = ClientStates(6), ClientStates(6)
    keep.write([1], {"a": KeptRows.of_all(torch.ones(1, 3))})
    copy.restore(keep.changes())
    keep.write([1, 4], {"a": KeptRows.of_all(torch.full((2, 3), 7.0)), "b": KeptRows.of_all(torch.zeros(2, 1))})
    changed = keep.changes()
    assert changed["a/ids"].tolist() == [1, 4]
    copy.restore(changed)
    assert keep.changes() == {}
    assert same(pack_kept(keep.read(list(range(6)))), pack_kept(copy.read(list(range(6)))))


def test_only_clients_that_have_a_row_write_it():
    keep = ClientStates(4)
    keep.write([1, 2], {"a": KeptRows(torch.ones(2, 3), torch.tensor([False, True]))})
    keep.write([3], {"b": KeptRows.of_nobody(torch.ones(1, 3))})
    assert keep.has["a"].tolist() == [False, False, True, False]
    assert keep.changes()["a/ids"].tolist() == [2]
    assert "b" not in keep.rows


def test_a_copy_stays_as_it_is():
    keep = ClientStates(4)
    keep.write([1, 2], {"a": KeptRows.of_all(torch.ones(2, 3))})
    copy = keep.copy()
    keep.write([2, 3], {"a": KeptRows.of_all(torch.zeros(2, 3))})
    assert copy.has["a"].tolist() == [False, True, True, False]
    assert copy.rows["a"].sum(1).tolist() == [0, 3, 3, 0]
    assert copy.changes() == {}


def test_a_large_matrix_is_mapped_and_behaves_the_same(monkeypatch):
    monkeypatch.setattr(module, "MAPPED_BYTES", 100)
    keep = ClientStates(1000)
    keep.write([999], {"row": KeptRows.of_all(torch.arange(50.0)[None])})
    assert torch.equal(keep.read([999])["row"].rows[0], torch.arange(50.0))


def test_a_cohort_gives_the_default_to_clients_that_kept_nothing():
    task = Task("t", federation([4, 4]), mlp())
    some = cohort(task, "loop", LocalWork())
    default = torch.zeros(2, 3)
    assert torch.equal(some.kept_rows("c", default), default)
    some.kept = {"c": KeptRows(torch.ones(2, 3), torch.tensor([False, True]))}
    assert some.kept_rows("c", default).tolist() == [[0, 0, 0], [1, 1, 1]]
