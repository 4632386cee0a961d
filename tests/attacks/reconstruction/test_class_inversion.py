"""Class inversion of a trained model shows the class that was asked for, and of an untrained one nothing."""

import pytest
import torch

import fedloom as fl
from fedloom.attacks.reconstruction.class_inversion import invert_class
from fedloom.attacks.reconstruction.gradients import inputs_of
from fedloom.attacks.reconstruction.rebuilt import value_range
from fedloom.core.errors import FedloomError


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=5, model="logistic")


def recognised(task, row):
    """How many classes' images are most like the mean image of their own class (correlation)."""
    positions = task.federation.train.order
    x, labels = inputs_of(task, positions).flatten(1), task.targets(positions)
    means = torch.stack([x[labels == digit].mean(0) - x.mean(0) for digit in range(10)])
    low, high = value_range(task)
    images = torch.stack([invert_class(task, row, digit, low=low, high=high, iterations=100) for digit in range(10)])
    flat = images.flatten(1) - images.flatten(1).mean(0)
    alike = torch.cosine_similarity(flat[:, None], means[None], dim=2)
    return int((alike.argmax(1) == torch.arange(10)).sum())


@pytest.mark.slow
def test_a_trained_model_shows_its_classes_and_an_untrained_one_does_not(task):
    trained = fl.run(task, "fedavg", rounds=5, local={"lr": 0.1, "epochs": 2}, eval_every=0).row
    assert recognised(task, trained) >= 9
    assert recognised(task, task.initial_row()) <= 5


def test_a_class_that_there_is_not_is_refused(task):
    with pytest.raises(FedloomError, match="target=10: there are 10 classes"):
        invert_class(task, task.initial_row(), 10, low=0.0, high=1.0)
