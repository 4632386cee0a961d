"""The assignment of rebuilt samples to originals: each once, whatever their order."""

import torch

from fedloom.attacks.measures.pairing import best_assignment


def test_the_order_does_not_matter():
    originals = torch.arange(6.0)[:, None, None]
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    found = best_assignment(originals[order] + 0.1, originals)
    assert torch.equal(order[found], torch.arange(6))


def test_each_is_used_once_where_the_nearest_would_be_used_twice():
    originals, rebuilt = torch.tensor([[0.0], [1.0]]), torch.tensor([[0.6], [5.0]])
    # 0.6 is nearest to both: 0.36 + 16 is less than 0.16 + 25
    assert best_assignment(rebuilt, originals).tolist() == [0, 1]


def test_what_was_not_rebuilt_has_no_place():
    assert best_assignment(torch.tensor([[2.1]]), torch.tensor([[0.0], [2.0], [9.0]])).tolist() == [-1, 0, -1]
    assert best_assignment(torch.zeros(0, 1), torch.zeros(2, 1)).tolist() == [-1, -1]
