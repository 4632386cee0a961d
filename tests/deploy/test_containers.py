"""The container files of ``examples/deploy``: they are read, and their steps are done; no image is built."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from functools import partial
from pathlib import Path

import pytest
import typer

from fedloom.cli.deploy.app import app
from fedloom.deploy.settings import ServerSettings
from support.containerfile import complaints, instructions
from support.paths import REPOSITORY

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: the compose file is not read")

FOLDER = REPOSITORY / "examples" / "deploy"
COMMANDS = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


ROLES = [("server.Dockerfile", "server"), ("site.Dockerfile", "client")]


def read(name: str) -> list[tuple[str, str]]:
    return instructions((FOLDER / name).read_text())


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((FOLDER / "compose.yaml").read_text())


@pytest.mark.parametrize(("name", "command"), ROLES)
def test_an_image_starts_its_role_as_a_user_that_is_not_root(name, command):
    assert list(complaints((FOLDER / name).read_text())) == []
    found = dict(read(name))
    assert found["FROM"] == "python:3.11-slim-bookworm"
    assert json.loads(found["ENTRYPOINT"]) == ["fedloom", "deploy"]
    assert json.loads(found["CMD"]) == [command, "."]
    assert command in COMMANDS
    assert found["USER"] == "fedloom"
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "deploy" in extras
    assert any("/source[deploy]" in rest for _, rest in read(name))


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("python:3.11-slim-bookworm", "python:latest", "no version"),
        ("python:3.11-slim-bookworm", "python:3.11-slim", "no version"),
        ("USER fedloom", "USER root", "not root"),
        ("USER fedloom\n", "", "not root"),
        ("COPY . /source", "ADD . /source", "not used here"),
        ("COPY . /source", "COPY https://example.org/x /source", "an address"),
        ("VOLUME /folder", "COPY server.key /folder/server.key", "a secret"),
        ("WORKDIR /folder", "ENV TOKEN=abc", "a secret"),
        ('["fedloom", "deploy"]', "fedloom deploy", "JSON list"),
        ('["server", "."]', "server .", "JSON list"),
        (" --no-install-recommends", "", "without recommendations"),
        (" -c /source/constraints.txt", "", "were tested"),
    ],
)
def test_what_is_wrong_with_a_container_file_is_found(before, after, complaint):
    text = (FOLDER / "server.Dockerfile").read_text()
    assert before in text
    assert any(complaint in found for found in complaints(text.replace(before, after)))


def image_context(target: Path) -> Path:
    """The folder that ``COPY .`` puts into an image: what ``.dockerignore`` lets in."""
    lines = [line for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    target.mkdir()
    for name in (line.removeprefix("!") for line in lines if line.startswith("!")):
        found = REPOSITORY / name
        if found.is_dir():
            shutil.copytree(found, target / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(found, target / name)
    return target


@pytest.mark.slow
def test_the_steps_of_an_image_work_in_a_fresh_environment(tmp_path):
    """Its ``pip install`` from what an image gets (packages come from this environment), then its commands."""
    pytest.importorskip("flwr", reason="the images have Flower")
    source, folder = image_context(tmp_path / "source"), tmp_path / "folder"
    folder.mkdir()
    venv.create(tmp_path / "image", with_pip=True)
    programs, alone = tmp_path / "image" / "bin", {"PATH": os.environ["PATH"], "HOME": str(folder)}
    [packages] = (tmp_path / "image").glob("lib/python*/site-packages")
    shutil.rmtree(packages / "setuptools", ignore_errors=True)  # of some Pythons, and too old
    (packages / "others.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")))
    [install] = [rest for word, rest in read("site.Dockerfile") if word == "RUN" and "pip install" in rest]
    assert install == 'pip install --no-cache-dir -c /source/constraints.txt "/source[deploy]" && rm -rf /source'
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed"]
    options = ["--no-cache-dir", "-c", source / "constraints.txt", *offline]
    run = partial(subprocess.run, cwd=folder, env=alone, capture_output=True, text=True, timeout=240)
    run([programs / "pip", "install", *options, f"{source}[deploy]"], check=True)
    shutil.rmtree(source)
    for name, _ in ROLES:
        found = dict(read(name))
        words = [*json.loads(found["ENTRYPOINT"]), *json.loads(found["CMD"])]
        ended = run([programs / words[0], *words[1:]])
        assert ended.returncode == 2
        assert ended.stderr.startswith("error: ")  # a folder without a participant
    assert str(packages) in run([programs / "python", "-c", "import fedloom; print(fedloom.__file__)"]).stdout
    small = ["--task", "digits", "--clients", "3", "--rounds", "1", "--out", "r", "--quiet"]
    run([programs / "fedloom", "run", *small], check=True)
    assert "uPlot" in (folder / "r" / "report.html").read_text()


def test_compose_starts_one_service_per_host_with_commands_that_exist(compose):
    assert set(compose["services"]) == {"server", "north", "south"}
    for name, service in compose["services"].items():
        assert service["profiles"] == [name]
        assert service["command"][0] in COMMANDS
        assert service["volumes"] == [f"./deploy/{name}:/folder"]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        dockerfile = (FOLDER / service["build"]["context"] / service["build"]["dockerfile"]).resolve()
        assert dockerfile.parent == FOLDER
        assert dockerfile.is_file()


def test_only_the_servers_port_for_sites_is_open(compose):
    port = ServerSettings(sites=["a"]).port
    assert compose["services"]["server"]["ports"] == [f"{port}:{port}"]
    assert not any("ports" in compose["services"][name] for name in ("north", "south"))
    assert dict(read("server.Dockerfile"))["EXPOSE"] == str(port)


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_every_command_that_is_named_exists(path: Path):
    named = re.findall(r"fedloom deploy (\w+)", path.read_text())
    assert set(named) <= COMMANDS
