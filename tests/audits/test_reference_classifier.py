"""The classifier that FID is measured with: it is trained, has never seen an attack, and orders sets of images."""

import pytest
import torch

import fedloom as fl
from fedloom.attacks.measures.fid import fid
from fedloom.attacks.reconstruction.gradients import inputs_of
from fedloom.audits.reference_classifier import ReferenceClassifier


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=5)


@pytest.fixture(scope="module")
def classifier(task):
    return ReferenceClassifier.train(task, {"rounds": 1, "local": {"epochs": 5, "lr": 0.1, "batch_size": 16}})


def test_it_is_right_about_samples_that_it_has_not_seen_and_leaves_the_tasks_model_alone(task, classifier):
    before = task.initial_row()
    positions = task.federation.global_test
    assert classifier.accuracy(inputs_of(task, positions), task.targets(positions)) > 0.9
    assert torch.equal(task.initial_row(), before)


def test_images_are_near_other_images_of_the_same_classes_and_farther_from_one_class_and_from_noise(task, classifier):
    train, test = inputs_of(task, task.federation.train.order), inputs_of(task, task.federation.global_test)
    zeros = train[task.targets(task.federation.train.order) == 0]
    noise = torch.randn(test.shape, generator=torch.Generator().manual_seed(0))
    found = [classifier.distance(train, other) for other in (train, test, zeros, noise)]
    assert found[0] == pytest.approx(0, abs=1e-6)
    assert found[1] < min(found[2:]) / 5


def test_its_features_are_what_its_head_sees(task, classifier):
    images = inputs_of(task, task.federation.global_test[:7])
    features = classifier.features(images)
    head = dict(classifier.model.named_children())["head"]
    assert torch.allclose(head(features), classifier.model(images))
    some = inputs_of(task, task.federation.global_test[:50])
    assert classifier.distance(some, some + 1) == fid(classifier.features(some), classifier.features(some + 1))
