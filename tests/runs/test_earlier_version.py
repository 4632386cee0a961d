"""Runs and comparisons that fedloom 0.5.0 started go on to what 0.5.0 gave, or say which step is needed.

``folder/version_0_5`` was written by that version (support/make_version_0_5.py): each run was killed when the record of
round 3 was written and its checkpoint was not, and was also played to its end.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import fedloom as fl
from fedloom.cli.app import app
from fedloom.config.resolve import method_from_config, task_from_config
from fedloom.core.errors import FedloomError
from fedloom.registry.validation import read_toml
from fedloom.runs.earlier_version import as_started
from fedloom.runs.folder.load_config import load_config_to_resume
from fedloom.runs.prepare import prepare
from support.command_line import output

WRITTEN = Path(__file__).parent / "folder" / "version_0_5"
TORCH = read_toml(WRITTEN / "scaffold" / "stopped" / "config.toml")["made_by"]["torch"]
same_torch = pytest.mark.skipif(torch.__version__ != TORCH, reason=f"the folders are of torch {TORCH}: others round")


@dataclass(frozen=True)
class HalfWay(fl.FedAvg):
    rate: float = 0.5

    def aggregate(self, server: Any, replies: Any) -> Any:
        return {**server, "row": server["row"] + self.rate * (replies.mean("row") - server["row"])}


@pytest.fixture
def stopped(tmp_path):
    return lambda name: Path(shutil.copytree(WRITTEN / name / "stopped", tmp_path / name))


def same_numbers(one: Any, other: Any) -> bool:
    """Equal values; numbers may differ by what another kind of processor rounds otherwise."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_numbers(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_numbers, one, other))
    return one == pytest.approx(other, rel=1e-4, abs=1e-5) if isinstance(one, float) else one == other


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def assert_same_run(folder: Path, whole: Path) -> None:
    assert same_numbers(lines(folder / "metrics.jsonl"), lines(whole / "metrics.jsonl"))
    last = next((whole / "checkpoints").iterdir()).name
    for name, tensor in load_file(whole / "checkpoints" / last).items():
        torch.testing.assert_close(load_file(folder / "checkpoints" / last)[name], tensor, rtol=1e-4, atol=1e-5)


@same_torch
@pytest.mark.parametrize("name", ["fedavg", "oort", "scaffold", "ditto", "object"])
def test_a_run_of_0_5_goes_on_to_what_0_5_gave(stopped, name):
    folder, whole = stopped(name), WRITTEN / name / "whole"
    fl.resume(folder, method=HalfWay(0.7) if name == "object" else None)
    assert_same_run(folder, whole)
    assert read_toml(folder / "config.toml")["made_by"]["fedloom"] == "0.5.0"  # it says who started it


@same_torch
def test_a_run_of_0_5_that_goes_on_can_be_stopped_again(stopped):
    def kill(record: dict[str, Any]) -> None:
        if record["round"] == 4:
            raise KeyboardInterrupt

    folder = stopped("scaffold")
    with pytest.raises(KeyboardInterrupt):
        fl.resume(folder, observers=[kill])
    fl.resume(folder)
    assert_same_run(folder, WRITTEN / "scaffold" / "whole")


@same_torch
def test_a_comparison_of_0_5_goes_on_with_the_partitions_of_0_5(stopped):
    """One run is stopped, and one was not started: its defaults are those of the runs that are there."""
    folder = stopped("comparison")
    fl.resume(folder)
    for run in (WRITTEN / "comparison" / "whole").glob("*-seed1"):
        assert_same_run(folder / run.name, run)
    assert read_toml(folder / "scaffold-seed1" / "config.toml")["task"]["partition"]["class_order"] == "label"


def test_a_comparison_of_0_5_goes_on_by_resume_alone(stopped):
    folder = stopped("comparison")
    with pytest.raises(FedloomError, match=r"a comparison of fedloom 0\.5\.0: go on with it by fedloom resume"):
        fl.compare("digits", ["fedavg", "scaffold"], seeds=2, rounds=2, out=folder)


def test_a_comparison_of_other_data_than_those_of_today_gets_no_new_run(stopped):
    folder = stopped("comparison")
    for path in folder.glob("*/config.toml"):
        path.write_text(path.read_text().replace('\ntask = "', '\ntask = "0'))
    shutil.rmtree(folder / "fedavg-seed1")
    with pytest.raises(FedloomError, match=r"its data, their splits or the form of its model are others now"):
        fl.resume(folder)
    assert not (folder / "fedavg-seed1").exists()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("adaptive", "since fedprox keeps 'losses' at the server now, which its checkpoint does not have"),
        ("recalibrate", r"\(recalibrate: it mixes the clients whose training part lacks a class since\)"),
    ],
)
def test_what_computes_something_else_since_is_refused_with_the_step_that_is_needed(stopped, name, why):
    folder = stopped(name)
    before = {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}
    with pytest.raises(FedloomError, match=why) as refused:
        fl.resume(folder)
    assert str(refused.value).endswith(
        "Install that version (fedloom==0.5.0), or start anew with the settings in its config.toml."
    )
    assert all(path.read_bytes() == content for path, content in before.items())


def test_data_that_are_split_otherwise_now_are_refused_as_such(stopped):
    folder = stopped("scaffold")
    config = folder / "config.toml"
    config.write_text(config.read_text().replace('\ntask = "', '\ntask = "0'))
    with pytest.raises(
        FedloomError, match=r"only fedloom 0\.5\.0 can resume it.*their splits or the form of its model"
    ):
        fl.resume(folder)


def test_a_sweep_of_0_5_says_what_is_needed(tmp_path):
    folder = Path(shutil.copytree(WRITTEN / "sweep", tmp_path / "sweep"))
    with pytest.raises(FedloomError, match="a sweep chooses on validation data and not on test data since"):
        output(app, "resume", folder)


def test_a_run_of_0_5_has_its_cohorts(stopped):
    """0.5 did not halve a round of few clients; a run of today does, where there is enough work."""
    folder = stopped("scaffold")
    config = load_config_to_resume(folder)
    prepared = prepare(task_from_config(config), method_from_config(config), config)
    assert prepared.composition.execution.halved_from > 0
    assert as_started(prepared, folder).composition.execution.halved_from == 0
