"""A deployment's folders, made once by the command line, and ``fedloom deploy`` in the test's own process."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedloom.cli.deploy.app import app

RUN = 'rounds = 2\n[task]\nname = "digits"\nclients = 2\nmodel = "logistic"\n[method]\nname = "fedavg"\n'


@pytest.fixture(scope="session", autouse=True)
def cryptography() -> None:
    pytest.importorskip("cryptography", reason="cryptography is not installed: no certificates are made")


@pytest.fixture
def run_file(tmp_path) -> Path:
    (tmp_path / "run.toml").write_text(RUN)
    return tmp_path / "run.toml"


@pytest.fixture(scope="session")
def deploy_folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("made")
    (root / "run.toml").write_text(RUN)
    done = CliRunner().invoke(
        app, ["init", str(root / "run.toml"), "--clients", "north, south", "--out", str(root / "d"), "--port", "9443",
              "--control-port", "9000", "--evaluator", "judge", "--host", "127.0.0.1"],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        *(str(root / "d" / name) for name in ("server", "north", "south", "judge")),
        "Give each folder to its participant alone; keep the authority's. Each has a README.md.",
    ]
    return root / "d"


@pytest.fixture
def deploy(deploy_folder, tmp_path) -> Path:
    return Path(shutil.copytree(deploy_folder, tmp_path / "d"))


@pytest.fixture
def fedloom(fedloom_in_process):
    return partial(fedloom_in_process, "deploy")
