"""A config that Python wrote is the whole truth about its run, or says what it cannot hold and is refused."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path

import numpy as np
import pytest
from torch import nn

import fedloom as fl
from fedloom.cli.app import app
from fedloom.core.errors import FedloomError
from support.command_line import output


class MyNet(nn.Sequential):
    """A model that no config can name."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 10))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    numbers = np.random.default_rng(0).normal(size=(80, 2)).tolist()
    rows = [[*pair, place, f"ward {place % 4}", "yn"[place % 2]] for place, pair in enumerate(numbers)]
    with open(tmp_path / "table.csv", "w", newline="") as file:
        csv.writer(file).writerows([["age", "dose", "row", "ward", "outcome"], *rows])
    return tmp_path / "table.csv"


def config_of(folder: Path) -> dict:
    return tomllib.loads((folder / "config.toml").read_text())


def run_again(folder: Path, *options: str) -> Path:
    """The folder of ``fedloom run`` on the config of a run."""
    again = folder.with_name(f"{folder.name}-again")
    output(app, "run", folder / "config.toml", "--out", again, "--quiet", *options)
    return again


def refusal(*words: object, out: Path) -> str:
    """What a command says instead of writing a folder."""
    with pytest.raises(FedloomError) as caught:
        output(app, *words, "--out", out)
    assert not out.exists()
    return str(caught.value)


def refusal_to_run(folder: Path) -> str:
    return refusal("run", folder / "config.toml", out=folder / "again")


def test_a_named_task_with_a_model_object_writes_all_else_and_runs_no_other_experiment(tmp_path):
    task = fl.task("digits", alpha=0.1, clients=4, model=MyNet(), seed=3)
    fl.run(task, rounds=1, out=tmp_path / "a")
    written = config_of(tmp_path / "a")
    assert (written["task"]["partition"]["alpha"], written["task"]["clients"], written["task"]["seed"]) == (0.1, 4, 3)
    assert written["made_by"]["object/model"] == "MyNet"
    assert "model" not in written["task"]
    said = refusal_to_run(tmp_path / "a")
    assert "(model: MyNet)" in said
    assert said.endswith("or name what is missing with --model.")


def test_a_model_that_is_named_instead_makes_it_another_experiment_on_the_same_data(tmp_path):
    fl.run(fl.task("digits", alpha=0.1, clients=4, model=MyNet(), seed=3), rounds=1, out=tmp_path / "a")
    again = config_of(run_again(tmp_path / "a", "--model", "mlp"))
    assert "object/model" not in again["made_by"]
    assert again["task"]["partition"] == config_of(tmp_path / "a")["task"]["partition"]


READ = {"target": "outcome", "client": "ward", "ignore": ["row"]}


@pytest.mark.parametrize(
    "options",
    [{}, {"partition": fl.dirichlet(0.5, minimum=5), "clients": 3, "seed": 2, "test_share": 0.3, "valid_share": 0.1}],
    ids=["wards", "divided"],
)
def test_a_file_that_python_read_is_named_with_its_columns_and_runs_to_the_same_bytes(options, table, tmp_path):
    federation = fl.read(table, **READ, **options)
    task = fl.task_of(federation, "mlp", seed=options.get("seed", 0), metrics="macro_f1", name="hospital")
    fl.run(task, "fedprox", rounds=2, seed=5, out=tmp_path / "a")
    section = config_of(tmp_path / "a")["task"]
    named = {"path": str(table), "target": "outcome", "client_column": "ward", "ignore": ["row"], "model": "mlp"}
    assert named.items() <= section.items()
    again = run_again(tmp_path / "a")
    for file in ("metrics.jsonl", "config.toml", "clients.json", "checkpoints/round-000002.safetensors"):
        assert (again / file).read_bytes() == (tmp_path / "a" / file).read_bytes()


def test_columns_of_ones_own_table_are_arguments_of_a_task(table):
    task = fl.task("own", path=str(table), target="outcome", client_column="ward", ignore=["row"])
    read = fl.task_of(fl.read(table, **READ))
    assert task.made_from == read.made_from
    assert task.is_named
    assert read.is_named


def unlike_the_file(table: Path) -> list[tuple[str, fl.Task]]:
    """Tasks that no config can build again, and what a refusal names."""
    federation = fl.read(table, **READ)
    arrays = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    return [
        ("data: arrays in memory", fl.task_of(fl.from_arrays(*arrays, clients=4))),
        ("global_share: 0.4", fl.task_of(fl.read(table, **READ, global_share=0.4))),
        ("model: Linear", fl.task_of(federation, nn.Linear(2, 2))),
        ("normalise: off", fl.task_of(federation, normalise=False)),
        ("seed: 4 of the model", fl.task_of(federation, seed=4)),
        ("data: arrays in memory", fl.task_of(fl.with_concept_drift(federation, rounds=[2], seed=0))),
        ("task: made by hand", fl.Task("made by hand", federation, nn.Linear(2, 2))),
    ]


def test_what_a_file_cannot_hold_is_named_and_refused(table, tmp_path):
    for number, (missing, task) in enumerate(unlike_the_file(table)):
        assert not task.is_named
        fl.run(task, rounds=1, out=tmp_path / str(number))
        assert missing in refusal_to_run(tmp_path / str(number))


def test_a_method_object_is_refused_unless_another_is_named(tmp_path):
    class FedAvg(fl.FedAvg):
        pass

    fl.run(fl.task("digits", clients=4), FedAvg(), rounds=1, out=tmp_path / "a")
    assert "(method: " in refusal_to_run(tmp_path / "a")
    assert config_of(run_again(tmp_path / "a", "--method", "fedprox"))["method"]["name"] == "fedprox"


def test_other_data_than_those_of_the_run_are_refused(table, tmp_path):
    fl.run(fl.task("own", path=str(table), target="outcome", client_column="ward"), rounds=1, out=tmp_path / "a")
    lines = table.read_text().splitlines()
    table.write_text("\n".join([*lines[:-1], lines[1]]) + "\n")
    assert "was started with other data, another partition or another model" in refusal_to_run(tmp_path / "a")
    compare = ("compare", "--config", tmp_path / "a" / "config.toml", "fedavg")
    assert "was started with other data" in refusal(*compare, out=tmp_path / "b")


@pytest.mark.slow
def test_changed_settings_of_the_data_are_another_experiment_and_not_other_data(tmp_path):
    fl.run(fl.task("digits", clients=4), rounds=1, out=tmp_path / "a")
    assert config_of(run_again(tmp_path / "a", "--clients", "5"))["task"]["clients"] == 5
    file = ("--config", tmp_path / "a" / "config.toml", "--quiet")
    output(app, "compare", *file, "fedavg", "--seeds", "2", "--out", tmp_path / "c")
    output(app, "sweep", *file, "--grid", "task.clients=3,4", "--out", tmp_path / "s")


def test_a_comparison_and_a_deployment_do_not_start_without_the_object(tmp_path):
    fl.run(fl.task("digits", clients=2, model=MyNet()), rounds=1, out=tmp_path / "a")
    file = tmp_path / "a" / "config.toml"
    for words in (["compare", "--config", file, "fedavg"], ["deploy", "init", file, "--clients", "a,b"]):
        assert "(model: MyNet)" in refusal(*words, out=tmp_path / "b")
