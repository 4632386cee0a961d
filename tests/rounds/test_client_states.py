"""State that stays with clients."""

import torch

from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.rounds import client_states as module
from fedloom.rounds.client_states import ClientStates
from support.synthetic import cohort, federation, mlp


def test_what_was_kept_is_read_back_and_others_have_nothing():
    keep = ClientStates(10)
    keep.write([2, 5], {"head": torch.tensor([[1.0, 2.0], [3.0, 4.0]])})
    found = keep.read([5, 7])
    assert found["head"].tolist() == [[3.0, 4.0], [0.0, 0.0]]
    assert found["head/has"].tolist() == [1.0, 0.0]


def test_changes_since_the_last_checkpoint_restore_the_same_state():
    keep, copy = ClientStates(6), ClientStates(6)
    keep.write([1], {"a": torch.ones(1, 3)})
    copy.restore(keep.changes())
    keep.write([1, 4], {"a": torch.full((2, 3), 7.0), "b": torch.zeros(2, 1)})
    changed = keep.changes()
    assert changed["a/ids"].tolist() == [1, 4]
    copy.restore(changed)
    assert keep.changes() == {}
    for name, tensor in keep.read(list(range(6))).items():
        assert torch.equal(tensor, copy.read(list(range(6)))[name])


def test_a_large_matrix_is_mapped_and_behaves_the_same(monkeypatch):
    monkeypatch.setattr(module, "MAPPED_BYTES", 100)
    keep = ClientStates(1000)
    keep.write([999], {"row": torch.arange(50.0)[None]})
    assert torch.equal(keep.read([999])["row"][0], torch.arange(50.0))


def test_a_cohort_gives_the_default_to_clients_that_kept_nothing():
    task = Task("t", federation([4, 4]), mlp())
    some = cohort(task, "loop", LocalWork())
    default = torch.zeros(2, 3)
    assert torch.equal(some.kept_rows("c", default), default)
    some.state = {"c": torch.ones(2, 3), "c/has": torch.tensor([0.0, 1.0])}
    assert some.kept_rows("c", default).tolist() == [[0, 0, 0], [1, 1, 1]]
