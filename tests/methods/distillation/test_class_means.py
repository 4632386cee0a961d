"""Mean outputs by class: of one client's own samples, and of all clients."""

import pytest
import torch

from fedloom.core.local_work import LocalWork
from fedloom.core.targets import IGNORED
from fedloom.methods.distillation.class_means import class_means, mean_by_class
from support.distillation import three_samples
from support.synthetic import cohort


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_class_means_by_hand(execution):
    """Client 0 has samples 1 and 2 of class 0; client 1 has 4 of class 1. Models multiply by 1 and by 10."""
    task = three_samples()
    rows = torch.tensor([[1.0, -1.0], [10.0, -10.0]])
    means = class_means(cohort(task, execution, LocalWork()), rows)
    assert means[0].tolist() == [[1.5, -1.5], [0.0, 0.0]]
    assert means[1].tolist() == [[0.0, 0.0], [40.0, -40.0]]


class ClassReplies(dict):
    samples = torch.tensor([3, 1])
    combine = staticmethod(lambda rows, weights: weights @ rows)


def test_the_mean_over_clients_is_weighted_by_counts_and_knows_who_has_a_class():
    """Of class 0 the clients have three and one samples, of class 1 one and none, and nobody has class 2."""
    sent = {
        "means": torch.tensor([[[4.0], [2.0], [0.0]], [[8.0], [0.0], [0.0]]]),
        "counts": torch.tensor([[3.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    }
    means, known = mean_by_class(ClassReplies(sent), "means", "counts")
    assert means.flatten().tolist() == [5.0, 2.0, 0.0]
    assert known.tolist() == [True, True, False]


def test_a_client_cannot_claim_more_samples_of_a_class_than_it_has():
    sent = {"means": torch.tensor([[[4.0]], [[8.0]]]), "counts": torch.tensor([[3.0], [1e9]])}
    means, _ = mean_by_class(ClassReplies(sent), "means", "counts")
    assert means.tolist() == [[5.0]]


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_samples_without_a_label_do_not_count(execution):
    task = three_samples()
    task.federation.columns["y"][1] = IGNORED
    some = cohort(task, execution, LocalWork(), [0])
    assert class_means(some, torch.tensor([[1.0, -1.0]]))[0].tolist() == [[1.0, -1.0], [0.0, 0.0]]
