"""A deployment as its people start it: the command line's own programs, behind nginx, killed while they work."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w
import torch

pytest.importorskip("flwr", reason="Flower is not installed: no real deployment is tried")

from fedloom.core.errors import FedloomError
from fedloom.deploy.operate import supervise
from fedloom.deploy.operate.commands import read_json, status, stop
from fedloom.deploy.operate.programs import Program, start_program, wait_until_ready
from fedloom.deploy.participant_folder import SITE_FILE
from fedloom.deploy.provision.certificates import make_node_key
from fedloom.deploy.provision.folders import init
from fedloom.deploy.settings import SiteSettings, load_server, load_site, to_toml
from support.deployment import SITES, exclusions, final_row, free_ports, simulate, values, without

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("deployment"),
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed: the proxy is not tried"),
]
FEDLOOM = [sys.executable, "-m", "fedloom.cli.app"]
ROUNDS = 6
GIVEN = values("scaffold", ROUNDS, eval_every=ROUNDS, local={"epochs": 60})
"""Long enough to be killed in: a second or so per round."""


class Machines:
    """The participants' folders, each with its program."""

    def __init__(self, folder: Path) -> None:
        port, control_port, first, *_ = free_ports(5)
        run_file = folder / "run.toml"
        run_file.write_bytes(tomli_w.dumps(GIVEN).encode())
        init(run_file, folder / "deploy", SITES, port=port, control_port=control_port, rehearsal=True,
             first_site_port=first)  # fmt: skip
        self.root, self.port = folder / "deploy", port
        self.programs: list[Program] = []

    def start(self, *command: str, until: str) -> Program:
        """Start a command of ours and wait until it says something; it ends with the test, however that ends."""
        log = self.root / f"{'-'.join(command)}.log"
        program = start_program(" ".join(command), [*FEDLOOM, "deploy", *command], log, os.environ, self.root)
        self.programs.append(program)
        wait_until_ready(program, lambda: until in program.output(), lambda said: said)
        return program

    def close(self) -> None:
        """End everything, however it stands."""
        for name in [*SITES, "server"]:
            stop(self.root / name)
        for program in self.programs:
            program.stop()


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    one = Machines(tmp_path_factory.mktemp("machines"))
    try:
        one.start("server", "server", until="ready")
        yield one
    finally:
        one.close()


def intruder(machines: Machines, folder: Path) -> tuple[Path, SiteSettings]:
    """A copy of a site's folder with a port of its own: what somebody could have who got hold of it."""
    shutil.copytree(machines.root / "north", folder)
    (port,) = free_ports(1)
    settings = load_site(folder).model_copy(update={"port": port})
    (folder / SITE_FILE).write_bytes(to_toml(settings))
    return folder, settings


def refusal(folder: Path, settings: SiteSettings) -> str:
    with pytest.raises(FedloomError) as error:
        supervise._start_supernode(folder, settings).stop()
    return str(error.value)


def proxy_log(machines: Machines) -> str:
    return (machines.root / "server" / "proxy" / "access.log").read_text()


def test_a_node_whose_key_was_not_let_in_is_refused_and_the_server_says_so(machines: Machines, tmp_path: Path) -> None:
    folder, settings = intruder(machines, tmp_path / "unknown")
    (folder / "node.key").unlink()
    make_node_key(folder / "node.key", folder / "node.pub")
    assert "does not know this site's key" in refusal(folder, settings)
    assert "No SuperNode found with the given public key" in (
        machines.root / "server" / "logs" / "superlink.log"
    ).read_text(errors="replace")


def test_a_certificate_of_another_authority_is_refused_and_the_server_says_so(
    machines: Machines, tmp_path: Path
) -> None:
    run_file = machines.root.parent / "run.toml"
    other = init(run_file, tmp_path / "other", SITES, rehearsal=True)[1]
    folder, settings = intruder(machines, tmp_path / "stranger")
    for name in ("client.pem", "client.key"):
        shutil.copyfile(other / name, folder / name)
    assert "did not accept this site's certificate" in refusal(folder, settings)
    assert 'certificate="FAILED' in proxy_log(machines)


def test_a_server_of_another_authority_is_refused_by_the_site(machines: Machines, tmp_path: Path) -> None:
    run_file = machines.root.parent / "run.toml"
    other = init(run_file, tmp_path / "other", SITES, rehearsal=True)[1]
    folder, settings = intruder(machines, tmp_path / "misled")
    shutil.copyfile(other / "ca.crt", folder / "ca.crt")
    assert "not from this site's authority" in refusal(folder, settings)


def test_plain_text_is_refused(machines: Machines) -> None:
    with socket.create_connection(("127.0.0.1", machines.port), timeout=5) as plain:
        plain.sendall(b"POST /v1/fleet/pull-messages HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        assert b"400" in plain.recv(4096).split(b"\r\n")[0]


def process_of(words: str) -> int:
    """The process whose command has some words in it."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if words in command and int(folder.name) != os.getpid():
                return int(folder.name)
    raise AssertionError(f"no process has {words} in its command")


def rounds_done(run: Path) -> int:
    """The last round that is noted."""
    try:
        lines = (run / "metrics.jsonl").read_text().splitlines()
        return max(json.loads(line)["round"] for line in lines)
    except (OSError, ValueError):
        return -1


def test_killed_at_every_place_a_run_ends_in_the_same_model(machines: Machines) -> None:
    """kill -9 at a site's process, at the server half and at the SuperLink, each in the middle of a round."""
    for name in SITES:
        machines.start("client", name, until="connected")
    run = machines.root / "server" / "run"
    victims = {
        1: lambda: process_of(f"fedloom.deploy.site.process {machines.root / 'north'}"),
        2: lambda: int(read_json(run / "serving.json")["process"]),
        3: lambda: process_of(f"flower-superlink --host 127.0.0.1 --port {load_link(machines)}"),
    }
    watcher = machines.start("run", "server", until="Waiting")
    end = time.monotonic() + 240
    while not watcher.has_ended:
        assert time.monotonic() < end, status(machines.root / "server")
        for after in [after for after in victims if rounds_done(run) >= after]:
            time.sleep(0.5)
            os.kill(victims.pop(after)(), signal.SIGKILL)
        time.sleep(0.05)
    assert watcher.process.returncode == 0, watcher.output()
    assert not victims
    assert rounds_done(run) == ROUNDS
    there = simulate(GIVEN, selection=without(exclusions(run)))
    torch.testing.assert_close(final_row(run), there.row, rtol=1e-5, atol=1e-7)
    assert (run / "report.html").is_file()
    assert all((machines.root / name / "model" / "model.safetensors").is_file() for name in SITES)


def load_link(machines: Machines) -> int:
    return load_server(machines.root / "server").control_port
