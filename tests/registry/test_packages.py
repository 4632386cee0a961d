"""Parts of installed packages: found by name everywhere, and never in the way of built-in ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

METHOD = '''
from dataclasses import dataclass

import fedloom as fl


@dataclass(frozen=True)
class HalfWay(fl.FedAvg):
    """FedAvg whose server goes part of the way."""

    rate: float = 0.5

    def aggregate(self, server, replies):
        return {**server, "row": server["row"] + self.rate * (replies.mean("row") - server["row"])}


def net(inputs, outputs):
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, outputs))
'''
ENTRIES = """
[fedloom.methods]
half-way = halfway_package:HalfWay
fedavg = halfway_package:HalfWay
broken = halfway_package:Missing
module = halfway_package.missing:Missing
number = halfway_package:METHODS

[fedloom.models]
their-net = halfway_package:net
"""
SMALL = ["--task", "digits", "--clients", "4", "--rounds", "2"]

Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def python(tmp_path: Path) -> Call:
    """Python with a package installed that offers parts; the arguments are those of the interpreter."""
    folder = tmp_path / "packages"
    info = folder / "fedloom_halfway-0.1.dist-info"
    info.mkdir(parents=True)
    (folder / "halfway_package.py").write_text(METHOD + "\nMETHODS = 3\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fedloom-halfway\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(ENTRIES)

    def call(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done

    return call


def test_a_method_of_a_package_runs_by_its_name(python: Call, tmp_path: Path) -> None:
    python("-m", "fedloom.cli.app", "run", *SMALL, "--method", "HalfWay:rate=0.9", "--out", "run", "--quiet")
    config = (tmp_path / "run" / "config.toml").read_text()
    assert 'name = "half-way"\nrate = 0.9' in config
    assert "object/" not in config
    done = python(
        "-c",
        "import fedloom as fl, halfway_package as p\n"
        "task = fl.task('digits', clients=4)\n"
        "named, made = fl.run(task, 'half-way:rate=0.9', rounds=2), fl.run(task, p.HalfWay(0.9), rounds=2)\n"
        "ends = [run.records[-1]['metrics'] for run in (named, made, fl.History.load('run'))]\n"
        "assert ends[0] == ends[1] == ends[2]\n"
        "assert made.config['method'] == {'name': 'half-way', 'rate': 0.9}, made.config['method']\n"
        "print(list(fl.compare(task, ['half-way', p.HalfWay(0.9), 'fedavg'], rounds=1)))\n",
    )
    assert done.stdout.strip() == "['half-way', 'half-way:rate=0.9', 'fedavg']"


def test_a_run_of_a_package_is_resumed_and_checked(python: Call, tmp_path: Path) -> None:
    settings = ["--method", "half-way", "--set", "task.model=their-net", "--quiet"]
    python("-m", "fedloom.cli.app", "run", *SMALL, *settings, "--out", "whole")
    python("-m", "fedloom.cli.app", "run", *SMALL, *settings, "--out", "part", "--rounds", "1")
    python("-m", "fedloom.cli.app", "resume", "part", "--rounds", "2", "--quiet")
    assert (tmp_path / "part" / "metrics.jsonl").read_bytes() == (tmp_path / "whole" / "metrics.jsonl").read_bytes()
    assert "half-way" in python("-m", "fedloom.cli.app", "conform", "half-way").stdout


def test_the_list_names_the_package_and_what_is_broken(python: Call) -> None:
    rows = {row["name"]: row for row in json.loads(python("-m", "fedloom.cli.app", "list", "methods", "--json").stdout)}
    assert rows["half-way"]["package"] == "fedloom-halfway"
    assert rows["half-way"]["settings"] == {"rate": 0.5}
    assert "cannot be imported (AttributeError" in rows["broken"]["about"]
    assert "package" not in rows["fedavg"]
    assert "[package fedloom-halfway]" in python("-m", "fedloom.cli.app", "list", "methods").stdout
    assert "their-net" in python("-m", "fedloom.cli.app", "list", "models").stdout


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("broken", "method 'broken' of the package fedloom-halfway cannot be imported (AttributeError"),
        ("module", "method 'module' of the package fedloom-halfway cannot be imported (ModuleNotFoundError"),
        ("number", "method 'number' of the package fedloom-halfway is not a subclass of Algorithm"),
        ("half-way:rat=1", "unknown key in method HalfWay: 'rat'. Did you mean 'rate'?"),
        ("halfwey", "Did you mean 'half-way'?"),
    ],
)
def test_what_is_wrong_is_one_sentence(python: Call, method: str, said: str) -> None:
    assert said in python("-m", "fedloom.cli.app", "run", *SMALL, "--method", method, code=2).stderr


def test_a_built_in_name_stays_the_built_in_part_and_a_warning_says_so(python: Call) -> None:
    done = python("-c", "from fedloom.registry.kinds import METHODS; print(METHODS.find('fedavg'), len(list(METHODS)))")
    assert done.stdout.startswith("<class 'fedloom.methods.fedavg.FedAvg'>")
    assert done.stderr.strip() == (
        "'fedavg' of the package fedloom-halfway is not used: Fedloom has a part of that name"
    )


def test_a_run_of_built_in_parts_reads_no_metadata_of_packages(python: Call) -> None:
    python(
        "-c",
        "import fedloom as fl, fedloom.registry.packages as packages\n"
        "packages.package_parts = None\n"
        "fl.run(fl.task('digits', clients=3), 'fedavg+finetune', rounds=1, channel=['topk'], aggregation='median')\n",
    )
