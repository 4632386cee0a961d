"""Norms of replies: of the change where a reply is weights, of itself elsewhere."""

from __future__ import annotations

import statistics

import torch
from hypothesis import given
from hypothesis import strategies as st

import fedloom as fl
from fedloom.core.message import Message
from fedloom.rounds.reply_norms import change_norms, median_of_others, weighted_median_of_others

GOT = Message({"row": torch.tensor([1.0, 1.0]), "c": torch.tensor([100.0, 0.0])})


def test_weights_are_measured_by_their_change_and_statistics_as_they_are():
    sent = {"change": torch.tensor([[3.0, 4.0]]), "c": torch.tensor([[6.0, 8.0]])}
    assert change_norms(fl.SCAFFOLD(), GOT, sent, "change").tolist() == [5.0]
    assert change_norms(fl.SCAFFOLD(), GOT, sent, "c").tolist() == [10.0]
    assert change_norms(fl.FedAvg(), GOT, {"row": torch.tensor([[4.0, 5.0]])}, "row").tolist() == [5.0]


def test_an_undeclared_name_is_a_change_of_what_has_its_name_and_else_counts_as_it_is():
    sent = {"c": torch.tensor([[103.0, 4.0]]), "gift": torch.tensor([[[3, 4]]])}
    assert change_norms(fl.FedAvg(), GOT, sent, "c").tolist() == [5.0]
    assert change_norms(fl.FedAvg(), GOT, sent, "gift").tolist() == [5.0]


def test_what_is_not_a_number_is_infinitely_large():
    rows = torch.tensor([[torch.nan, 1.0], [torch.inf, 1.0], [3e38, 3e38]])
    assert change_norms(fl.FedAvg(), Message(), {"row": rows}, "row")[:2].tolist() == [torch.inf, torch.inf]
    assert change_norms(fl.FedAvg(), Message(), {"row": rows}, "row").isfinite().tolist() == [False, False, True]


@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.0, 8.0, float("inf")]), min_size=1, max_size=9))
def test_the_median_of_the_others_leaves_oneself_out_and_what_says_nothing(values):
    found = median_of_others(torch.tensor(values, dtype=torch.float64)).tolist()
    for place, median in enumerate(found):
        others = [v for other, v in enumerate(values) if other != place and 0 < v < float("inf")]
        assert median == (statistics.median(others) if others else 0.0)


def test_the_weighted_median_counts_a_value_as_often_as_its_weight_says():
    values, weights = torch.tensor([1.0, 2.0, 3.0, 9.0]).double(), torch.tensor([1.0, 1.0, 1.0, 7.0])
    assert weighted_median_of_others(values, weights).tolist() == [9, 9, 9, 2]
    assert weighted_median_of_others(values, torch.ones(4)).tolist() == [3, 3, 2, 2]
    assert weighted_median_of_others(torch.tensor([0.0, 5.0, torch.inf]), torch.ones(3)).tolist() == [5, 0, 5]
