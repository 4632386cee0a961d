"""FedAvgM: momentum over the rounds' changes."""

from __future__ import annotations

from support.server_formula import check_three_rounds_follow


def test_three_rounds_are_those_of_its_formula(tmp_path):
    def formula(change, moment, second):
        moment = 0.9 * moment + change
        return moment, moment, second

    check_three_rounds_follow(formula, "fedavgm", tmp_path)
