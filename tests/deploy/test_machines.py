"""A deployment as its people start it: the command line's own programs, behind nginx, killed while they work."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tomli_w
import torch

pytest.importorskip("flwr", reason="Flower is not installed: no real deployment is tried")

from fedloom.core.errors import FedloomError
from fedloom.deploy.flower.control import SuperLinkControl, write_app
from fedloom.deploy.operate.commands import stop
from fedloom.deploy.operate.programs import Program, start_program, wait_until_ready
from fedloom.deploy.operate.run_site import start_supernode
from fedloom.deploy.participant_folder import read_json
from fedloom.deploy.provision.address_limit import load_stream
from fedloom.deploy.provision.folders import init
from fedloom.deploy.provision.private_keys import make_node_key
from fedloom.deploy.settings import SiteSettings, load_server, load_site
from fedloom.watch.status_reader import StatusReader
from support.deployment import SITES, exclusions, final_row, free_ports, simulate, values, without
from support.other_user import descendants, listening_ports, try_as_nobody
from support.waiting import LIMIT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("deployment"),
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed: the proxy is not tried"),
]
FEDLOOM = [sys.executable, "-m", "fedloom.cli.app"]
ROUNDS = 9
GIVEN = values("scaffold", ROUNDS, eval_every=ROUNDS, local={"epochs": 60})
"""Long enough to be killed in: a second or so per round."""
LONGEST = 900.0
"""Seconds of a run that is killed in three places, on a machine that does much else."""


class Machines:
    """The participants' folders, each with its program."""

    def __init__(self, folder: Path) -> None:
        port, control_port, *_ = free_ports(2)
        run_file = folder / "run.toml"
        run_file.write_bytes(tomli_w.dumps(GIVEN).encode())
        init(run_file, folder / "deploy", SITES, port=port, control_port=control_port, rehearsal=True)
        self.root, self.port = folder / "deploy", port
        self.made = {str(path) for path in self.root.rglob("*") if path.is_file()}
        self.programs: list[Program] = []

    def start(self, *command: str) -> Program:
        """Start a command of ours; it ends with the test, however that ends."""
        log = self.root / f"{'-'.join(command)}.log"
        as_people_do = ["/bin/sh", "-c", 'umask 022; exec "$@"', "sh", *FEDLOOM, "deploy", *command]
        program = start_program(" ".join(command), as_people_do, log, os.environ, self.root)
        self.programs.append(program)
        return program

    def close(self) -> None:
        """End everything, however it stands."""
        for name in [*SITES, "server"]:
            stop(self.root / name)
        for program in self.programs:
            program.stop()


def wait_for_words(program: Program, words: str) -> Program:
    """Wait until a program says something."""
    wait_until_ready(program, lambda: words in program.output(), lambda said: said, seconds=LIMIT)
    return program


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to other users
        one = Machines(Path(folder))
        try:
            wait_for_words(one.start("server", "server"), "ready")
            yield one
        finally:
            one.close()


def intruder(machines: Machines, folder: Path) -> tuple[Path, SiteSettings]:
    """A copy of a site's folder: what somebody could have who got hold of it."""
    shutil.copytree(machines.root / "north", folder)
    return folder, load_site(folder)


def refusal(folder: Path, settings: SiteSettings) -> str:
    """What Flower's own node says; what the server tells a site before that is in operate/test_ask_server.py."""
    silent: Any = SimpleNamespace(check=lambda: None, problem=lambda: "")
    with pytest.raises(FedloomError) as error:
        start_supernode(folder, settings, silent, lambda _: None).stop()
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
    with socket.create_connection(("127.0.0.1", machines.port), timeout=LIMIT) as plain:
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


@pytest.fixture(scope="module")
def running(machines: Machines) -> Program:
    """The command that watches the run, whose sites are connected; after a round, it waits for one of them."""
    for site in [machines.start("client", name) for name in SITES]:
        wait_for_words(site, "connected")
    program = wait_for_words(machines.start("run", "server"), "Waiting")
    wait_for_round(program, machines.root / "server" / "run", 1)
    os.kill(north_of(machines), signal.SIGSTOP)  # rounds are left for who comes last, however slow this machine is
    return program


def north_of(machines: Machines) -> int:
    """The process of a site that trains."""
    return process_of(f"fedloom.deploy.site.process {machines.root / 'north'}")


def wait_for_round(running: Program, run: Path, number: int) -> None:
    while rounds_done(run) < number:
        assert not running.has_ended, running.output()
        time.sleep(0.05)


def attacks(folder: Path) -> list[dict[str, object]]:
    """The calls by which who reaches Flower's APIs owns a deployment, as its own clients make them."""
    import httpx
    from flwr.cli.build import build_fab_from_disk
    from flwr.common.serde import fab_to_proto
    from flwr.proto.control_pb2 import ListNodesRequest, ListRunsRequest, RegisterNodeRequest, StartRunRequest
    from flwr.proto.runtime_pb2 import AcquireTaskRequest, GetNodesRequest, PullTaskInputRequest
    from flwr.supercore.control import ControlHttpClient
    from flwr.supercore.fab import Fab
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
    from flwr.supercore.runtime import RuntimeHttpClient

    calls: list[dict[str, object]] = []

    def record(request: httpx.Request) -> httpx.Response:
        headers = {name: value for name, value in request.headers.items() if name not in ("host", "content-length")}
        calls.append({"path": request.url.path, "headers": headers, "body": request.content.hex()})
        return httpx.Response(200, content=b"")

    def client(kind: type, name: str) -> Any:
        one = kind.from_server_address("localhost", True, None, [RuntimeVersionHttpInterceptor(component_name=name)])
        one._client = httpx.Client(transport=httpx.MockTransport(record))
        return one

    bundle = build_fab_from_disk(write_app(folder, folder))
    operator, program = client(ControlHttpClient, "flwr CLI"), client(RuntimeHttpClient, "SuperExec")
    operator.StartRun(StartRunRequest(fab=fab_to_proto(Fab(hashlib.sha256(bundle).hexdigest(), bundle, {}))))
    operator.ListRuns(ListRunsRequest())
    operator.ListNodes(ListNodesRequest())
    operator.RegisterNode(RegisterNodeRequest(public_key=b"key"))
    for kind in ("flwr-serverapp", "flwr-clientapp"):
        program.AcquireTask(AcquireTaskRequest(supported_task_types=[kind]))
    program.PullTaskInput(PullTaskInputRequest())
    program.GetNodes(GetNodesRequest())
    return calls


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody: another user of the machine is not tried")
def test_another_user_of_the_machine_gets_nowhere(machines: Machines, running: Program, tmp_path: Path) -> None:
    """Whoever made the folders open, and while a run is going on: no call, no socket, no file and no token is his."""
    assert not running.has_ended
    folders = [machines.root / name for name in ("server", *SITES)]
    for folder in [machines.root.parent, machines.root, machines.root / "authority", *folders]:
        folder.chmod(0o755)
    processes = descendants({program.process.pid for program in machines.programs})
    before = SuperLinkControl(folders[0]).nodes()
    wanted = {
        "calls": attacks(tmp_path),
        "ports": listening_ports(processes),
        "sockets": [str(path) for folder in folders for path in folder.rglob("*.sock")],
        "files": [str(path) for path in machines.root.rglob("*") if path.is_file() and path.parent != machines.root],
        "processes": sorted(processes),
    }
    assert len(wanted["sockets"]) == (4 if load_stream() is None else 5)  # nginx's two parts have one between them
    assert len(wanted["ports"]) == 3  # nginx, the SuperLink, and what tells sites why they are refused
    got = try_as_nobody(wanted)
    assert got["user"] == 65534
    assert [one for one in got["answers"] if isinstance(one[3], int) and one[3] < 400] == []
    link = load_server(folders[0]).link_port
    assert {status for port, scheme, _, status in got["answers"] if (port, scheme) == (link, "https")} == {403}
    assert got["connected"] == []
    keys = {path for path in machines.made if path.endswith((".key", "nginx.conf"))}
    assert len(keys) == 9
    assert set(got["read"]) <= machines.made - keys  # what init wrote, and no secret, log or model
    assert len(got["commands"]) >= 10
    assert not [command for command in got["commands"] if re.search("[0-9a-f]{32}", command)]
    assert got["environments"] == []
    after = SuperLinkControl(folders[0]).nodes()
    assert [node.key for node in after] == [node.key for node in before]


def test_every_log_of_a_deployment_is_its_owners(machines: Machines, running: Program) -> None:
    """Also where people's shells let others read what they write (umask 022), and while a run is going on."""
    assert not running.has_ended
    folders = [machines.root / name for name in ("server", *SITES)]
    logs = [path for folder in folders for path in folder.rglob("*") if ".log" in path.name or path.suffix == ".jsonl"]
    names = {path.relative_to(machines.root / "server").as_posix() for path in logs if folders[0] in path.parents}
    written = {"logs/superlink.log", "logs/nginx.log", "proxy/access.log", "proxy/error.log", "audit.jsonl"}
    assert names >= written | {"run/metrics.jsonl"}
    assert {path.name for path in logs} >= {"site.log", "supernode.log"}
    assert {str(path): oct(path.stat().st_mode & 0o777) for path in logs if path.stat().st_mode & 0o077} == {}


@pytest.mark.timeout(LONGEST + 60)
def test_killed_at_every_place_a_run_ends_in_the_same_model(machines: Machines, running: Program) -> None:
    """kill -9 at a site's process, at the server half and at the SuperLink, each in the middle of a round."""
    run, watcher = machines.root / "server" / "run", running
    first = max(1, rounds_done(run) + 1)
    victims = {
        first: lambda: north_of(machines),
        first + 1: lambda: int(read_json(run / "serving.json")["process"]),
        first + 2: lambda: process_of(f"fedloom.deploy.flower.superlink {machines.root / 'server'}"),
    }
    os.kill(north_of(machines), signal.SIGCONT)
    end = time.monotonic() + LONGEST
    while not watcher.has_ended:
        assert time.monotonic() < end, StatusReader(machines.root / "server").read()
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
