"""FedAdam: steps in units of a running mean of squared changes."""

from __future__ import annotations

from support.server_formula import check_three_rounds_follow


def test_three_rounds_are_those_of_its_formula(tmp_path):
    def formula(change, moment, second):
        moment = 0.9 * moment + 0.1 * change
        second = 0.99 * second + 0.01 * change**2
        return 0.01 * moment / (second.sqrt() + 1e-3), moment, second

    check_three_rounds_follow(formula, "fedadam", tmp_path)
