"""Representatives: what is exact for one sample, the classes that a client has, and what is refused."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.attacks.reconstruction.gradients import inputs_of
from fedloom.attacks.reconstruction.representatives import (
    Representatives,
    client_representatives,
    labels_of_update,
    mean_representatives,
    with_shuffled_clients,
)
from fedloom.audits.updates_of_run import updates_of_run
from fedloom.core.errors import FedloomError
from fedloom.data.federation import Ragged
from support.synthetic import federation

ONE_STEP = {"rounds": 1, "local": {"epochs": 1, "batch_size": 0, "lr": 0.1}, "eval_every": 0}
QUICK = {"number": 4, "iterations": 5}


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=4, model="mlp")


def of_parts(task, parts):
    """The same samples, held by other clients."""
    none = Ragged.empty(len(parts))
    made = replace(task.federation, train=Ragged.of(parts), test=none, valid=none, names=())
    return replace(task, federation=made, made_from={})


def test_of_a_client_with_one_sample_the_representative_looks_like_it(task):
    order = task.federation.train.order
    alone = of_parts(task, [order[:1], order[1:21]])
    seen, _ = updates_of_run(alone, "fedavg", **ONE_STEP)
    own = task.federation.global_test
    found = client_representatives(alone, seen, own, number=1, iterations=150, smoothness=0.0)
    image, sample = found[0].images.flatten(), inputs_of(alone, order[:1]).flatten()
    assert found[0].labels.tolist() == alone.targets(order[:1]).tolist()
    assert float(torch.cosine_similarity(image, sample, dim=0)) > 0.95


def test_a_client_of_one_class_has_representatives_of_this_class(task):
    order = task.federation.train.order
    threes = order[task.targets(order) == 3]
    seen, _ = updates_of_run(of_parts(task, [threes, order[:50]]), "fedavg", **ONE_STEP)
    own = task.federation.global_test
    assert labels_of_update(task, seen[0], own, 8).tolist() == [3] * 8
    assert len(labels_of_update(task, seen[1], own, 8)) == 8
    assert len(labels_of_update(task, seen[1], own, 8).unique()) > 4


def test_seeds_give_the_same_bytes_and_each_client_has_its_own(task):
    seen, _ = updates_of_run(task, "fedavg", **ONE_STEP)
    own = task.federation.global_test
    one, again = (client_representatives(task, seen, own, **QUICK) for _ in range(2))
    assert [(some.client, some.round) for some in one] == [(client, 1) for client in range(4)]
    assert all(torch.equal(some.images, other.images) for some, other in zip(one, again, strict=True))
    assert not torch.equal(one[0].images, one[1].images)
    others = client_representatives(task, seen[2:], own, **QUICK)
    assert torch.equal(others[0].images, one[2].images), "who else is read changes nothing"
    assert not torch.equal(client_representatives(task, seen, own, **QUICK, seed=1)[0].images, one[0].images)


def by_hand(client, number, shade, *labels):
    images = torch.full((len(labels), 1, 2, 2), shade)
    return Representatives(client, number, torch.zeros(1), images, torch.tensor(labels))


def test_the_mean_of_a_class_is_over_rounds_and_there_is_none_of_a_class_that_nobody_found():
    found = [by_hand(0, 1, 0.0, 1), by_hand(1, 1, 9.0, 0, 1), by_hand(0, 2, 1.0, 1, 2)]
    means = mean_representatives(found, 0, 3)[:, 0, 0, 0]
    assert means[1:].tolist() == [0.5, 1.0]
    assert bool(means[0].isnan())


def test_clients_are_dealt_anew_in_each_round_and_images_stay_with_their_labels():
    found = [by_hand(client, number, 10.0 * number + client, client) for number in (1, 2, 3) for client in range(5)]
    dealt = with_shuffled_clients(found, seed=1)
    assert [(one.client, one.round) for one in dealt] == [(one.client, one.round) for one in found]
    shades = [float(one.images[0, 0, 0, 0]) for one in dealt]
    for number in (1, 2, 3):
        assert sorted(shades[5 * number - 5 : 5 * number]) == [10.0 * number + client for client in range(5)]
    assert all(shade == 10 * one.round + float(one.labels[0]) for one, shade in zip(dealt, shades, strict=True))
    assert len({tuple(shade % 10 for shade in shades[start : start + 5]) for start in (0, 5, 10)}) > 1
    assert shades == [float(one.images[0, 0, 0, 0]) for one in with_shuffled_clients(found, seed=1)]


def test_what_cannot_be_asked_is_refused(task):
    own = task.federation.global_test
    summed, _ = updates_of_run(task, "fedavg", **ONE_STEP, channel=["securesum"])
    with pytest.raises(FedloomError, match="no single one can be rebuilt from it"):
        client_representatives(task, summed, own)
    rows = fl.task_of(federation([9, 9]), "mlp")
    seen, _ = updates_of_run(rows, "fedavg", **ONE_STEP)
    with pytest.raises(FedloomError, match="the samples of task own are not: use a task on images"):
        client_representatives(rows, seen, own)
    made = rows.federation
    numbers = replace(made, columns={**made.columns, "y": made.columns["y"].float()}, classes=1)
    with pytest.raises(FedloomError, match="representatives are images of classes, and task own has none"):
        client_representatives(fl.task_of(numbers, "mlp"), seen, own)
    unbiased = nn.Sequential(nn.Flatten(), nn.Linear(64, 10, bias=False))
    silent = fl.task("digits", clients=2, model=unbiased)
    with pytest.raises(FedloomError, match="bias of the model's last layer, which has none"):
        client_representatives(silent, updates_of_run(silent, "fedavg", **ONE_STEP)[0], own)
    other = fl.task("digits", clients=4, model="logistic")
    with pytest.raises(FedloomError, match="sought with the task's model, and clients of this run have others"):
        client_representatives(other, updates_of_run(task, "fedavg", **ONE_STEP)[0], own)


def test_a_part_of_a_model_is_refused(task):
    seen, _ = updates_of_run(task, "fedrep", **ONE_STEP)
    with pytest.raises(FedloomError, match="clients of this run send a part of it"):
        client_representatives(task, seen, task.federation.global_test, **QUICK)
