"""A real deployment on loopback for tests: Flower's SuperLink and SuperNodes with TLS and node authentication.

The SuperLink and the SuperNodes are programs of their own and stay up for many runs. The sites' own processes are
threads of the test, so that a test can look into them and make them misbehave; tests/deploy/test_machines.py starts
them as programs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w
from torch import Tensor

from fedloom.config.method_spec import with_method
from fedloom.config.resolve import method_from_config, resolve, task_from_config
from fedloom.core.selector import Choice, Pool
from fedloom.deploy.flower.control import SuperLinkControl
from fedloom.deploy.flower.site_transport import SiteTransport
from fedloom.deploy.operate import commands as operate
from fedloom.deploy.operate.admission import register_members
from fedloom.deploy.operate.ask_server import ServerContact
from fedloom.deploy.operate.programs import Program
from fedloom.deploy.operate.run_server import start_superlink
from fedloom.deploy.operate.run_site import start_supernode
from fedloom.deploy.participant_folder import SERVER_FILE
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.provision.folders import init
from fedloom.deploy.settings import ServerSettings, SiteData, load_server, load_site, to_toml
from fedloom.deploy.site import request_count
from fedloom.deploy.site.process import SiteProcess
from fedloom.deploy.site.state import SiteState
from fedloom.deploy.sum_keys import write_shared_secret
from fedloom.runs.folder.checkpoint import load_checkpoint
from fedloom.runs.prepare import prepare
from fedloom.runs.results.history import History
from fedloom.runs.runner import execute
from fedloom.secure.sum_step import SumStep
from support.waiting import LIMIT

SITES = ["north", "south", "west"]
AnswerFunction = Callable[[bytes], bytes]


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody has, one after the other, and that no outgoing connection is given."""
    first = 10_000 + 37 * os.getpid() % 20_000
    for start in range(first, first + 2000, count):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(start, start + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return list(range(start, start + count))
    raise AssertionError("this machine has no free ports")


def has_ipv6() -> bool:
    """Whether this machine has a loopback address of IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError:
        return False
    return True


def values(method: str, rounds: int, **more: Any) -> dict[str, Any]:
    """A small run file of three clients."""
    task = {"name": "digits", "clients": 3, "seed": 1}
    return with_method({"rounds": rounds, "task": task, **more}, method)


def simulate(given: dict[str, Any], **more: Any) -> History:
    """The same run in the simulator."""
    config = resolve({**given, **more})
    return execute(prepare(task_from_config(config), method_from_config(config), config))


class Deployment:
    """The programs, the sites' threads, and runs one after the other."""

    def __init__(self, folder: Path) -> None:
        port, *_ = free_ports(1)
        run_file = folder / "run.toml"
        run_file.write_bytes(tomli_w.dumps(values("fedavg", 1)).encode())
        self.folders = dict(zip(["server", *SITES], init(
            run_file, folder / "deploy", SITES, port=port, proxy=False, rehearsal=True,
            host="::1" if has_ipv6() else "127.0.0.1",
        ), strict=True))  # fmt: skip
        self.server = self.folders["server"]
        self.usual = load_server(self.server)
        self.link: Program = start_superlink(self.server, load_server(self.server))
        register_members(self.server, load_server(self.server), SuperLinkControl(self.server))
        self.nodes: dict[str, Program] = {}
        self.sites: dict[str, SiteProcess] = {}
        self.answers: dict[str, AnswerFunction] = {}
        for name in SITES:
            threading.Thread(target=self._serve, args=(name,), daemon=True).start()

    def _serve(self, name: str) -> None:
        SiteTransport(self.folders[name]).serve(lambda data: self.answers[name](data))

    def connect(self, *names: str) -> None:
        """Start the SuperNodes of some sites that are not up."""
        for name in names:
            if name not in self.nodes or self.nodes[name].has_ended:
                folder, settings = self.folders[name], load_site(self.folders[name])
                contact = ServerContact(folder, settings, lambda _: None, lambda: None)
                self.nodes[name] = start_supernode(folder, settings, contact, lambda _: None)

    def disconnect(self, name: str) -> None:
        """Kill a site's SuperNode, which has no time to say goodbye."""
        self.nodes[name].process.kill()
        self.nodes[name].process.wait()

    def set_up(self, given: dict[str, Any], data: Mapping[str, Path] | None = None, **settings: Any) -> None:
        """Give server and sites another run, and the server other settings; sites may have data of their own."""
        shutil.rmtree(self.server / "run", ignore_errors=True)
        blueprint = Blueprint.of(resolve(given), SITES)
        changed = ServerSettings(**{**self.usual.model_dump(), "join_timeout": LIMIT, "deadline": LIMIT, **settings})
        (self.server / SERVER_FILE).write_bytes(to_toml(changed))
        for name, folder in self.folders.items():
            blueprint.save(folder, server=name == "server", paths=name == "server" or data is None)
        for step in blueprint.config.channel:
            if isinstance(step, SumStep):
                write_shared_secret(step, [self.folders[name] for name in SITES], self.server)
        for number, name in enumerate(SITES):
            shutil.rmtree(self.folders[name] / "kept", ignore_errors=True)
            (self.folders[name] / request_count.FILE).unlink(missing_ok=True)
            site = load_site(self.folders[name])
            if data is not None:
                site = site.model_copy(update={"data": SiteData(path=str(data[name]))})
            runtime = blueprint.runtime(blueprint.site_task(site, self.folders[name]))
            kept = SiteState(self.folders[name] / "kept")
            self.sites[name] = SiteProcess(self.folders[name], site, blueprint, runtime, kept)
            self.answers[name] = self.sites[name].answer
            assert site.client == number

    def run(self, observe: Callable[[dict[str, Any]], None] = lambda _: None) -> Path:
        """Play the run over Flower, as ``fedloom deploy run`` does."""
        return operate.run(self.server, lambda _: None, observe)

    def close(self) -> None:
        """End every program."""
        for program in [*self.nodes.values(), self.link]:
            program.stop()


@contextlib.contextmanager
def start_deployment(folder: Path) -> Iterator[Deployment]:
    """A deployment that is ended whatever happens."""
    one = Deployment(folder)
    try:
        one.connect(*SITES)
        yield one
    finally:
        one.close()


def final_row(run_folder: Path) -> Tensor:
    """The shared row of a run's last checkpoint."""
    state = load_checkpoint(run_folder, len(SITES))
    assert state is not None
    return state.server["row"]


def records(run_folder: Path) -> list[dict[str, Any]]:
    """The records of a run's rounds."""
    return [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]


def exclusions(run_folder: Path) -> list[tuple[int, str, str, str]]:
    """Who was left out: round, site, of what, why."""
    return [
        (record["round"], one["name"], one["what"], one["reason"])
        for record in records(run_folder)
        for one in record.get("excluded", ())
    ]


@dataclass(frozen=True)
class Only:
    """A selection that is written down: which clients work in which round; everyone in rounds not named."""

    rounds: dict[int, list[int]]

    def __call__(self, pool: Pool) -> Choice:
        return Choice(self.rounds.get(pool.round, [0, 1, 2]))


def without(left: list[tuple[int, str, str, str]]) -> Only:
    """The selection that leaves out whoever's update did not count; an answer that came late was counted out before."""
    missed: dict[int, set[int]] = {}
    for number, name, what, reason in left:
        if what == "update" and "too late" not in reason:
            missed.setdefault(number, set()).add(SITES.index(name))
    return Only({number: [c for c in range(len(SITES)) if c not in some] for number, some in missed.items()})
