"""The runs of FedHARM's studies: configs that are accepted, controls on the same clients, and sizes of networks."""

from __future__ import annotations

import pytest

from fedloom.config.resolve import method_from_config, resolve
from fedloom.methods.fedharm.fedharm import FedHARM
from fedloom.reproduce.fedharm_study_runs import (
    CLIENTS,
    DATA,
    ISOLATED,
    REM,
    RES,
    SAMPLES,
    UNALIGNED,
    ablations,
    arms,
    fedharm_rem,
    model_bytes,
    model_kilobytes,
)


@pytest.mark.parametrize("data", DATA)
def test_every_arm_is_accepted(data):
    for arm in {**{one.label: one for one in arms(data)}, **{one.label: one for one in ablations(data)}}.values():
        config = resolve(arm.config(data, 10))
        assert config.task.communal.share > 0
        method = method_from_config(config)
        assert isinstance(method, FedHARM) == (arm.method["name"] == "fedharm")


def test_the_controls_have_the_clients_and_networks_of_rem():
    tasks = [arm.config("cifar10", 5)["task"] for arm in (ISOLATED, UNALIGNED, fedharm_rem("cifar10"))]
    assert tasks[0] == tasks[1] == tasks[2]
    assert sum(entry["share"] for entry in tasks[0]["models"].values()) == pytest.approx(1)


def test_all_numbers_of_clients_share_the_same_samples():
    for clients in CLIENTS:
        assert sum(ISOLATED.config("mnist", clients)["task"]["partition"]["sizes"]) == SAMPLES["mnist"]


def test_the_size_of_a_network_is_four_bytes_per_parameter():
    assert model_bytes(RES["resnet8"], "cifar10") == 4 * 31_538
    assert model_kilobytes(fedharm_rem("cifar10"), "cifar10") == pytest.approx(
        sum(model_bytes(spec, "cifar10") for spec in REM.values()) / len(REM) / 1000
    )
