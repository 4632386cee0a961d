"""The container files of ``examples/deploy``: they are read and compared with the command line, and not built here."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
import typer

from fedloom.cli.deploy.app import app
from fedloom.deploy.settings import ServerSettings
from support.paths import REPOSITORY

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: the compose file is not read")

FOLDER = REPOSITORY / "examples" / "deploy"
COMMANDS = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def instructions(name: str) -> list[tuple[str, str]]:
    lines = [line for line in (FOLDER / name).read_text().splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((FOLDER / "compose.yaml").read_text())


@pytest.mark.parametrize(("name", "command"), [("server.Dockerfile", "server"), ("site.Dockerfile", "client")])
def test_an_image_starts_its_role_as_a_user_that_is_not_root(name, command):
    found = dict(instructions(name))
    assert found["FROM"] == "python:3.11-slim"
    assert json.loads(found["ENTRYPOINT"]) == ["fedloom", "deploy"]
    assert json.loads(found["CMD"]) == [command, "."]
    assert command in COMMANDS
    assert found["USER"] == "fedloom"
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "deploy" in extras
    assert any("/source[deploy]" in rest for _, rest in instructions(name))


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
    assert dict(instructions("server.Dockerfile"))["EXPOSE"] == str(port)


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_every_command_that_is_named_exists(path: Path):
    named = re.findall(r"fedloom deploy (\w+)", path.read_text())
    assert set(named) <= COMMANDS
