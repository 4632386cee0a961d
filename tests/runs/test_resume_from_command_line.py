"""A run or a plan that Python started with named parts is resumed by ``fedloom resume``, to the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedloom as fl
from fedloom.cli.app import app
from support.folders import stop_after

LOCAL = {"lr": 0.05, "batch_size": 16}


def results(folder: Path) -> dict[str, bytes]:
    kept = ("metrics.jsonl", "clients.json", "config.toml", "partition.json")
    files = [path for path in folder.rglob("*") if path.name in kept or path.suffix == ".safetensors"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def resume(folder: Path) -> None:
    done = CliRunner().invoke(app, ["resume", str(folder), "--quiet"])
    assert done.exit_code == 0, (done.output, done.exception)


def digits():
    return fl.task("digits", clients=4, partition=fl.dirichlet(0.5), seed=7)


@pytest.mark.parametrize(
    ("task", "method", "settings"),
    [
        ("digits", "fedavg", {}),
        pytest.param(digits, "fedprox:mu=0.1+finetune", {"local": LOCAL}, marks=pytest.mark.slow),
        (digits, fl.FedYogi(server_lr=0.05), {"selection": fl.PowerOfChoice(number=2), "local": fl.LocalWork(lr=0.05)}),
        pytest.param(digits, fl.FedAvg, {"prediction": [fl.FedPredict(), "own"]}, marks=pytest.mark.slow),
        pytest.param(
            digits,
            "fedavg",
            {"server_optimizer": {"kind": "yogi"}, "prediction": [{"name": "fedpredict"}]},
            marks=pytest.mark.slow,
        ),
    ],
)
@pytest.mark.slow
def test_a_run_with_named_parts_ends_in_the_same_bytes(task, method, settings, tmp_path):
    task = task() if callable(task) else task
    fl.run(task, method, rounds=3, seed=2, out=tmp_path / "whole", **settings)
    with pytest.raises(KeyboardInterrupt):
        fl.run(task, method, rounds=3, seed=2, out=tmp_path / "cut", observers=[stop_after(2)], **settings)
    resume(tmp_path / "cut")
    assert results(tmp_path / "cut") == results(tmp_path / "whole")


def test_a_method_of_a_users_file_is_found_from_another_folder(tmp_path, monkeypatch):
    text = "import fedloom as fl\n\nclass Mine(fl.FedAvg):\n    '''FedAvg under another name.'''\n"
    (tmp_path / "mine.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    fl.run(digits(), "mine.py:Mine", rounds=2, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fl.run(digits(), "mine.py:Mine", rounds=2, out=tmp_path / "cut", observers=[stop_after(1)])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    resume(tmp_path / "cut")
    assert results(tmp_path / "cut") == results(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("task", ["digits", digits])
def test_a_comparison_with_named_parts_ends_in_the_same_bytes(task, tmp_path):
    task = task() if callable(task) else task
    methods = ["fedavg+own", fl.FedProx(mu=0.5), fl.FedSGD]
    how = {"rounds": 2, "seeds": 2, "local": fl.LocalWork(lr=0.05), "selection": fl.PowerOfChoice(number=2)}
    fl.compare(task, methods, out=tmp_path / "whole", **how)
    seen = []

    def stop(record):
        seen.append(record["round"])
        if len(seen) == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fl.compare(task, methods, out=tmp_path / "cut", observers=[stop], **how)
    resume(tmp_path / "cut")
    assert results(tmp_path / "cut") == results(tmp_path / "whole")
    assert (tmp_path / "cut" / "fedprox_mu=0.5-seed1").is_dir()
    assert list(fl.compare(task, methods, out=tmp_path / "cut", **how)) == [
        "fedavg+lastlocalmodel",
        "fedprox:mu=0.5",
        "fedsgd",
    ]


@pytest.mark.slow
def test_a_sweep_of_a_method_object_keeps_the_objects_settings(tmp_path):
    how = {"grid": {"local.lr": [0.05, 0.1]}, "rounds": 2}
    method = fl.FedProx(mu=0.7)
    fl.sweep(digits(), method, out=tmp_path / "whole", **how)
    fl.sweep(digits(), method, out=tmp_path / "cut", **how)
    for folder in (tmp_path / "cut").glob("002-*"):
        for path in sorted(folder.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        folder.rmdir()
    resume(tmp_path / "cut")
    assert results(tmp_path / "cut") == results(tmp_path / "whole")


class Halved(fl.FedAvg):
    """FedAvg that goes half of the way."""

    def aggregate(self, server, replies):
        return {**server, "row": (server["row"] + replies.mean("row")) / 2}


@pytest.mark.parametrize("part", ["task", "method"])
def test_a_run_of_python_objects_is_never_continued_with_something_else(part, tmp_path):
    named = digits()
    task = fl.task_of(named.federation, named.model, name="mine") if part == "task" else named
    method = type("FedAvg", (Halved,), {})() if part == "method" else fl.FedAvg()
    fl.run(task, method, rounds=2, seed=2, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fl.run(task, method, rounds=2, seed=2, out=tmp_path / "cut", observers=[stop_after(1)])
    refused = CliRunner().invoke(app, ["resume", str(tmp_path / "cut"), "--quiet"])
    assert f"the {part} of {tmp_path / 'cut'} is a Python object" in str(refused.exception)
    fl.resume(tmp_path / "cut", **{part: {"task": task, "method": method}[part]})
    assert results(tmp_path / "cut") == results(tmp_path / "whole")
