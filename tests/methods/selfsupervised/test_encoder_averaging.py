"""Encoder averaging: a method without a loss is refused, and accuracies of a head that nobody trains are named."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.core.local_work import LocalWork
from fedloom.methods.selfsupervised.encoder_averaging import EncoderAveraging
from support.small_images import ONE_STEP, adapted, two_clients
from support.synthetic import cohort


def test_a_method_says_what_its_clients_minimise():
    method = EncoderAveraging(projection=4)
    task = adapted(method)
    message = method.broadcast(method.start(task), [0, 1])
    with pytest.raises(TypeError, match="EncoderAveraging has no local_loss"):
        method.client_update(cohort(task, "loop", LocalWork()), message)


@pytest.mark.parametrize("stage", ["", "+finetune:part=body", "+lastlocalmodel"])
@pytest.mark.parametrize("name", ["fedsimclr", "fedsimsiam", "fedca"])
def test_a_run_whose_head_nobody_trains_names_the_probe(name, stage, caplog):
    fl.run(two_clients(), name + stage, rounds=1, local=ONE_STEP)
    assert f"{name} does not train the head" in caplog.text
    assert f"use {name}+linearprobe" in caplog.text


@pytest.mark.parametrize(
    "method", ["fedsimclr+linearprobe", "fedsimclr+finetune", "fedsimclr+finetune:part=head", "fedavg"]
)
def test_a_run_whose_head_is_trained_does_not(method, caplog):
    fl.run(two_clients(), method, rounds=1, local=ONE_STEP)
    assert "does not train the head" not in caplog.text
