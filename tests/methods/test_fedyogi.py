"""FedYogi: squared changes move its second moment by their sign."""

from __future__ import annotations

import torch

from fedloom.aggregation.server_optimizer import ServerOptimizer
from support.checkpoints import final_row
from support.server_formula import check_three_rounds_follow


def test_three_rounds_are_those_of_its_formula(tmp_path):
    def formula(change, moment, second):
        moment = 0.9 * moment + 0.1 * change
        second = second - 0.01 * change**2 * torch.sign(second - change**2)
        return 0.01 * moment / (second.sqrt() + 1e-3), moment, second

    check_three_rounds_follow(formula, "fedyogi", tmp_path)


def test_a_named_method_is_fedavg_with_its_optimiser(tmp_path):
    named = final_row(tmp_path / "named", "fedyogi")
    optimizer = ServerOptimizer("yogi", lr=0.01, momentum=0.9)
    assert torch.equal(named, final_row(tmp_path / "spelled", "fedavg", server_optimizer=optimizer))
