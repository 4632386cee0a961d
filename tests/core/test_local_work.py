"""Settings of local training: those of an optimiser are its own."""

import pytest

from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "adamx"}, "unknown optimizer 'adamx'. Did you mean 'adam"),
        ({"optimizer": "adam", "momentum": 0.9}, "local.momentum=0.9: adam has no momentum, it has beta1, beta2"),
        ({"beta1": 0.5}, "local.beta1=0.5: sgd has no beta1, it has momentum, nesterov, weight_decay"),
        ({"centered": True}, "sgd has no centered"),
        ({"optimizer": "adagrad", "smoothing": 0.5}, "adagrad has no smoothing"),
        ({"optimizer": "torch.optim:Adamax", "weight_decay": 0.1}, "from local.optimizer_options: put it there"),
        ({"optimizer_options": {"foreach": False}}, "local.optimizer_options are for a class"),
        ({"accumulate": 2, "batch_size": 0}, "accumulate=2 with batch_size=0"),
        ({"accumulate": 0}, "accumulate=0: it must be at least 1"),
    ],
)
def test_what_an_optimizer_does_not_have_is_refused(settings, message):
    with pytest.raises(FedloomError, match=message):
        LocalWork(**settings)


def test_the_defaults_are_those_of_torch():
    assert LocalWork(optimizer="adamw").weight_decay == 0.01
    assert LocalWork(optimizer="adam").weight_decay == 0.0
    assert LocalWork(optimizer="adagrad").epsilon == 1e-10
    assert LocalWork(optimizer="rmsprop").epsilon == 1e-8


def test_only_a_penalty_is_a_part_of_the_gradient():
    assert LocalWork(optimizer="adam", weight_decay=0.1).gradient_decay == 0.1
    assert LocalWork(optimizer="adamw", weight_decay=0.1).gradient_decay == 0.0


def test_accumulated_batches_make_fewer_steps():
    assert LocalWork(batch_size=8, accumulate=3, epochs=2).steps_for(50) == 2 * 3
    assert LocalWork(batch_size=8, accumulate=3, steps=5).steps_for(50) == 5
