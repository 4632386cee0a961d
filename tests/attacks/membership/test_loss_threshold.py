"""The loss tells members where a model has learnt them by heart, and nothing where it has learnt nothing."""

import pytest

import fedloom as fl
from fedloom.attacks.membership.loss_threshold import loss_threshold


def test_a_model_that_has_seen_nothing_tells_nothing():
    task = fl.task("digits", clients=3)
    found = loss_threshold(task, task.initial_row(), task.federation.train.order, task.federation.test.order)
    assert found.auc == pytest.approx(0.5, abs=0.05)
    assert [rate.allowed for rate in found.rates] == [0.001, 0.01]
