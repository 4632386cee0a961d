"""FedAdagrad: steps that shrink with all squared changes so far."""

from __future__ import annotations

from support.server_formula import check_three_rounds_follow


def test_three_rounds_are_those_of_its_formula(tmp_path):
    def formula(change, moment, second):
        second = second + change**2
        return 0.1 * change / (second.sqrt() + 1e-3), moment, second

    check_three_rounds_follow(formula, "fedadagrad", tmp_path)
