"""The runs of FedHARM's studies: configs that are accepted, controls on the same clients, and sizes of networks."""

from __future__ import annotations

import pytest

from fedloom.config.resolve import method_from_config, resolve
from fedloom.data.changes.class_stream import ClassStream
from fedloom.methods.fedharm.fedharm import FedHARM
from fedloom.reproduce.fedharm_study_runs import (
    ALL_CLASSES,
    CLASSES,
    CLIENTS,
    DATA,
    ISOLATED,
    REM,
    RES,
    RIVALS,
    ROUNDS,
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
    for arm in arms(data):
        for clients in arm.counts(data):
            config = resolve(arm.config(data, clients, 0.005))
            assert config.task.valid_share > 0
            method = method_from_config(config)
            assert isinstance(method, FedHARM) == (arm.method["name"] == "fedharm")
    for arm in ablations(data):
        assert isinstance(method_from_config(resolve(arm.ablated(data))), FedHARM)


def test_the_controls_have_the_clients_and_networks_of_rem():
    tasks = [arm.config("cifar10", 5, 0.005)["task"] for arm in (ISOLATED, UNALIGNED, fedharm_rem("cifar10"))]
    assert tasks[0] == tasks[1] == tasks[2]
    assert sum(entry["share"] for entry in tasks[0]["models"].values()) == pytest.approx(1)


def test_rivals_run_where_the_document_has_a_number_and_are_tuned_there():
    counts = {arm.label: (arm.counts("cifar10"), arm.tuned("cifar10")) for arm in RIVALS}
    assert counts["MOON"] == ((10, 20), 10)
    assert counts["FedCA + probe"] == ((5,), 5)
    assert [arm.label for arm in RIVALS if arm.counts("mnist")] == ["FedCon"]


def test_rivals_have_one_network_and_all_samples_and_the_server_of_fedcon_has_labels():
    tasks = {arm.label: arm.config("cifar10", 10, 0.005)["task"] for arm in RIVALS}
    assert {task["model"] for task in tasks.values()} == {"resnet8"}
    assert not any("models" in task for task in tasks.values())
    assert "communal" not in tasks["MOON"]
    assert tasks["FedCA + probe"]["communal"]["labelled"] is False
    assert tasks["FedCon"]["server_set"]["share"] > 0


@pytest.mark.parametrize("data", DATA)
def test_clients_have_few_classes_where_they_would_have_too_few_images_of_each(data):
    stream = ISOLATED.config(data, 10, 0.005)["task"].get("stream")
    if CLASSES[data] == ALL_CLASSES[data]:
        assert stream is None
    else:
        assert len(ClassStream(**stream).classes(ALL_CLASSES[data], 0)[0]) == CLASSES[data]
        assert stream["rounds"] == ROUNDS  # so that no other task takes place


def test_all_numbers_of_clients_share_the_same_samples():
    for data, factor in (("mnist", 1), ("cifar10", 2), ("cifar100", 10)):
        for clients in CLIENTS:
            sizes = ISOLATED.config(data, clients, 0.005)["task"]["partition"]["sizes"]
            assert sum(sizes) == factor * SAMPLES[data]


def test_the_size_of_a_network_is_four_bytes_per_parameter():
    assert model_bytes(RES["resnet8"], "cifar10") == 4 * 31_538
    assert model_kilobytes(fedharm_rem("cifar10"), "cifar10") == pytest.approx(
        sum(model_bytes(spec, "cifar10") for spec in REM.values()) / len(REM) / 1000
    )
