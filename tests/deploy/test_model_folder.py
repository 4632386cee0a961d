"""A saved model whose folder is not what was written is found and said, and the model before it is used."""

from __future__ import annotations

import json
import logging
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.deploy.model_folder import save_model, whole_model
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.saved_model import load_model, saved_model_file
from fedloom.runs.start_model import with_start
from support import small_tables

FILES = ("config.toml", "schema.json", "initial.safetensors", "model.safetensors", "model.json")


@pytest.fixture(scope="module")
def blueprint(tmp_path_factory: pytest.TempPathFactory) -> Blueprint:
    path = small_tables.write_patients(tmp_path_factory.mktemp("data") / "patients.csv")
    return Blueprint.of(small_tables.config_of(path), small_tables.HOSPITALS)


def save(folder: Path, blueprint: Blueprint, number: int) -> None:
    row = blueprint.initial + number
    save_model(folder, blueprint, row, client="north", method="fedrep", round=number)


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= 1 << place % 8
    path.write_bytes(content)


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_found_in_every_file(blueprint, tmp_path, name):
    draws = random.Random(name)
    save(tmp_path / "whole", blueprint, 1)
    for number in range(8):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", folder)
        flip(folder / name, draws.randrange(1 << 20))
        for read in (load_model, saved_model_file):
            with pytest.raises(FedloomError) as error:
                read(folder)
            assert name in str(error.value)
            assert "\n" not in str(error.value)


DAMAGES: dict[str, Callable[[Path, Path], object]] = {
    "a flipped bit": lambda model, _: flip(model / "model.safetensors", 4711),
    "a missing file": lambda model, _: (model / "schema.json").unlink(),
    "a cut file": lambda model, _: (model / "model.json").write_bytes(b"{"),
    "another model's weights": lambda model, other: shutil.copy(other / "model.safetensors", model),
    "a foreign file": lambda model, _: (model / "more.py").write_text("import os"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_where_a_model_is_damaged_the_one_before_it_is_used(blueprint, tmp_path, caplog, damage):
    for number in (1, 2):
        save(tmp_path / "model", blueprint, number)
    save(tmp_path / "other", blueprint, 3)
    DAMAGES[damage](tmp_path / "model", tmp_path / "other")
    with caplog.at_level(logging.WARNING):
        loaded = load_model(tmp_path / "model")
    assert loaded.about.round == 1
    assert torch.allclose(torch.cat([p.flatten() for p in loaded.model.parameters()]), blueprint.initial + 1)
    assert "the model before it is used, after round 1 of fedrep" in caplog.text
    shutil.rmtree(tmp_path / ".model.old")
    with pytest.raises(FedloomError, match="restore the folder from a copy, or train and save the model again"):
        load_model(tmp_path / "model")


def test_a_model_of_the_version_before_is_read(blueprint, tmp_path):
    save(tmp_path / "model", blueprint, 2)
    about = {"client": "north", "method": "fedrep", "round": 2, "format": 1, "fedloom": "0.5.0"}
    (tmp_path / "model" / "model.json").write_text(json.dumps(about))
    assert whole_model(tmp_path / "model")[1].round == 2
    assert load_model(tmp_path / "model").about.fedloom == "0.5.0"


def test_a_model_that_0_5_saved_is_read():
    model = load_model(Path(__file__).parent / "version_0_5/model")
    assert (model.about.fedloom, model.about.client, model.about.round) == ("0.5.0", "north", 4)


def test_a_run_does_not_start_from_a_damaged_model(tmp_path):
    task = fl.task("digits", clients=3, model="logistic")
    (tmp_path / "model.json").write_text(json.dumps({"files": {"model.safetensors": "0" * 64}}))
    (tmp_path / "model.safetensors").write_bytes(b"something")
    with pytest.raises(FedloomError, match=r"model.safetensors is not what the run wrote \(its digest differs\)"):
        with_start(task, str(tmp_path))
