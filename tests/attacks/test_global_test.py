"""What a model predicts of the global test set is what its outputs say, batch by batch."""

import torch

import fedloom as fl
from fedloom.attacks import global_test
from fedloom.config.resolve import resolve
from fedloom.registry.kinds import METHODS
from fedloom.runs.prepare import prepare


def test_predictions_are_those_of_the_network_in_any_batches(monkeypatch):
    task = fl.task("digits", clients=3)
    run = prepare(task, METHODS.make("fedavg"), resolve({"method": "fedavg"})).composition
    context, positions = run.context(1), task.federation.global_test
    monkeypatch.setattr(global_test, "AT_ONCE", 50)
    predicted, actual = global_test.predictions_on_test(task.initial_row(), context)
    with torch.no_grad():
        by_hand = task.model.eval()(task.inputs(positions)).argmax(1)
    assert torch.equal(predicted, by_hand)
    assert torch.equal(actual, task.targets(positions))
