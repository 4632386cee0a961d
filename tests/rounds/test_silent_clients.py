"""What silent clients send and keep."""

import torch

from fedloom.core.kept_rows import KeptRows
from fedloom.rounds.jobs import CohortAnswer
from fedloom.rounds.silent_clients import restore_kept, withhold_replies


class Clients:
    """What a cohort of three clients kept."""

    def __init__(self):
        rows = {"head": torch.tensor([[1.0], [2.0], [3.0]]), "own": torch.full((3, 1), 9.0)}
        self.kept = {name: KeptRows.of_all(some) for name, some in rows.items()}
        self.changed = {"head", "own"}

    def __len__(self):
        return 3


def test_silent_clients_go_back_to_what_they_kept_before_and_newcomers_to_nothing():
    cohort, silent = Clients(), torch.tensor([True, False, True])
    before = {"head": KeptRows(torch.tensor([[5.0], [6.0], [0.0]]), torch.tensor([True, True, False]))}
    restore_kept(cohort, before, silent, but=frozenset({"own"}))
    assert cohort.kept["head"].rows.tolist() == [[5.0], [2.0], [0.0]]
    assert cohort.kept["head"].has.tolist() == [True, True, False]
    assert cohort.kept["own"].rows.tolist() == [[9.0]] * 3


def test_a_silent_client_costs_its_flag_and_others_one_byte_more():
    answer = CohortAnswer({"row": torch.zeros(2, 3)}, {}, {"bytes": torch.tensor([12, 12])})
    some = withhold_replies(answer, torch.tensor([True, False]))
    assert some.costs["bytes"].tolist() == [1, 13]
    assert some.pack()["silent"].tolist() == [1, 0]
    assert "row" in some.reply
    assert withhold_replies(answer, torch.tensor([True, True])).reply == {}
