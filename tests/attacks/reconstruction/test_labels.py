"""Labels by the last layer's bias: exact for one sample, and nearly for a batch of a new model."""

import pytest
import torch

import fedloom as fl
from fedloom.attacks.reconstruction.gradients import gradient, inputs_of
from fedloom.attacks.reconstruction.labels import (
    label_counts,
    label_of_one,
    labels_found,
    last_bias,
    mean_prediction,
)


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=10)


def bias_gradient(task, positions):
    found = gradient(task, task.initial_row(), inputs_of(task, positions), task.targets(positions))
    slot = last_bias(task)
    return found[slot.start : slot.stop]


def test_one_label_is_always_right(task):
    for place in range(50):
        positions = task.federation.train.order[place : place + 1]
        assert label_of_one(bias_gradient(task, positions)) == int(task.targets(positions))


def test_counts_by_hand():
    # 4 samples: classes 0, 0, 2, 2 of 3, and even predictions
    gradient = torch.tensor([1 / 3 - 0.5, 1 / 3, 1 / 3 - 0.5])
    assert label_counts(gradient, torch.full((3,), 1 / 3), 4).tolist() == [2, 0, 2]
    for seed in range(50):
        drawn = torch.randn(3, generator=torch.Generator().manual_seed(seed))
        assert int(label_counts(drawn, torch.full((3,), 1 / 3), 7).sum()) == 7
    assert label_counts(torch.ones(3), torch.full((3,), 1 / 3), 7).tolist() == [3, 2, 2]


def test_labels_of_a_batch_are_found_where_the_model_has_learnt_nothing(task):
    positions = task.federation.train.order[:64]
    noise = torch.randn(64, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    counts = label_counts(bias_gradient(task, positions), mean_prediction(task, task.initial_row(), noise), 64)
    assert int(counts.sum()) == 64
    assert labels_found(counts, task.targets(positions)) > 0.9


def test_a_last_layer_without_a_number_per_class_tells_none():
    assert last_bias(fl.task("digits", clients=3)) is not None
    bare = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10, bias=False))
    assert last_bias(fl.task("digits", clients=3, model=bare)) is None
