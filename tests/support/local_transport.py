"""A deployment without a network: messages reach sites of the same process, so that an engine is tried in milliseconds.

``LocalTransport`` stands for Flower. ``Local`` is a whole deployment around it: sites with folders of their own, and a
server that can be killed and started again. ``simulate`` is the same run in the simulator, of chosen clients only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from fedloom.config.method_spec import with_method
from fedloom.config.resolve import method_from_config, resolve
from fedloom.core.algorithm import Algorithm
from fedloom.core.channel_step import ChannelStep
from fedloom.core.selector import Choice
from fedloom.deploy.flower.server_transport import NodeInfo, ReceivedMessage
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.protocol.wire import SiteAnswer, SiteRequest, pack, unpack
from fedloom.deploy.provision.authority import Authority
from fedloom.deploy.server.deployed_engine import DeployedEngine
from fedloom.deploy.server.roster import Roster
from fedloom.deploy.server.serve import prepare_deployed_run
from fedloom.deploy.server.tickets import Tickets
from fedloom.deploy.settings import PolicySettings, ServerSettings, SiteData, SiteSettings
from fedloom.deploy.site.process import SiteProcess
from fedloom.deploy.site.state import SiteState
from fedloom.deploy.sum_keys import server_keys, write_shared_secret
from fedloom.rounds.client_runtime import ClientRuntime
from fedloom.runs.folder.checkpoint import last_saved_round
from fedloom.runs.prepare import Prepared, prepare
from fedloom.runs.results.history import History
from fedloom.runs.runner import execute, resume
from fedloom.secure.sum_step import ServerKeys

NAMES = ["north", "south", "west"]
TINY = {
    "rounds": 3,
    "seed": 5,
    "eval_every": 0,
    "execution": "loop",
    "task": {"name": "digits", "clients": 3, "seed": 1, "model": "mlp", "model_options": {"hidden": 8}},
    "local": {"epochs": 1, "batch_size": 256, "lr": 0.1},
}


@dataclass(frozen=True)
class Sent:
    """A message that was answered: what it was called, who got it, what it asked, and the honest answer."""

    name: str
    node: int
    request: SiteRequest
    answer: bytes


class LocalTransport:
    """``sites`` answer at once, unless they are ``away``. ``meddle`` may change an answer on its way: to other
    bytes, to a message of any kind, to several messages, or to silence (None)."""

    def __init__(self, sites: Mapping[int, Callable[[bytes], bytes]]) -> None:
        self.sites = dict(sites)
        self.away: set[int] = set()
        self.since = dict.fromkeys(sites, 1.0)
        self.keys = {client: str(client).encode() for client in sites}
        self.meddle: Callable[[Sent], Any] = lambda sent: sent.answer
        self.waiting: list[ReceivedMessage] = []
        self.sent: list[Sent] = []
        self.down: list[tuple[int, bytes]] = []

    def nodes(self) -> list[NodeInfo]:
        return [NodeInfo(c, self.keys[c], c not in self.away, self.since[c]) for c in self.sites]

    def send(self, messages: Mapping[int, bytes], seconds: float, group: str) -> dict[int, str]:
        names = {}
        for node, data in messages.items():
            names[node] = name = f"letter-{len(self.down)}"
            self.down.append((node, data))
            sent = Sent(name, node, unpack(data, SiteRequest, 1 << 40)[0], self.sites[node](data))
            self.sent.append(sent)
            self.arrive(sent, self.meddle(sent))
        return names

    def arrive(self, sent: Sent, what: Any) -> None:
        for one in what if isinstance(what, list) else [what]:
            if one is not None:
                self.waiting.append(
                    one if isinstance(one, ReceivedMessage) else ReceivedMessage(sent.name, sent.node, one)
                )

    def fetch(self, names: Collection[str], seconds: float) -> list[ReceivedMessage]:
        found = [message for message in self.waiting if message.reply_to in names]
        self.waiting = [message for message in self.waiting if message.reply_to not in names]
        return found


def node_keys(count: int) -> dict[bytes, int]:
    return {str(client).encode(): client for client in range(count)}


def tamper_with(
    client: int, round_number: int, by: Callable[[Sent], Any], kind: str = "update"
) -> Callable[[Sent], Any]:
    """Meddling with one client's answer in one round; everything else passes."""

    def meddle(sent: Sent) -> Any:
        asked = (sent.node, sent.request.round, sent.request.kind) == (client, round_number, kind)
        return by(sent) if asked else sent.answer

    return meddle


def change_answer(
    sent: Sent, tensors: Callable[[dict[str, Tensor]], dict[str, Tensor]] | None = None, **header: Any
) -> bytes:
    """An honest answer with other tensors or another header."""
    answer, found = unpack(sent.answer, SiteAnswer, 1 << 40)
    return pack(answer.model_copy(update=header), found if tensors is None else tensors(found))


def blueprint(spec: str = "fedavg", **changes: Any) -> Blueprint:
    values = with_method({**TINY, **changes}, spec)
    clients = values["task"]["clients"]
    return Blueprint.of(resolve(values), NAMES if clients == 3 else [f"site-{number}" for number in range(clients)])


@dataclass(frozen=True)
class Plan:
    """What a module's tests share: a blueprint and the sites' tasks, which are slow to make."""

    blueprint: Blueprint
    runtime: ClientRuntime
    prepared: Prepared
    """The run in the simulator."""

    @staticmethod
    def of(spec: str = "fedavg", **changes: Any) -> Plan:
        made = blueprint(spec, **changes)
        settings = SiteSettings(name=made.sites[0], client=0, data=SiteData(rehearsal=True))
        task = made.site_task(settings, Path())  # a rehearsal's task is the same for all sites, and the simulator's
        return Plan(made, made.runtime(task), prepare(task, method_from_config(made.config), made.config))


class Local:
    """A deployment whose sites are in this process; ``settings`` are the server's."""

    def __init__(self, plan: Plan, folder: Path, **settings: Any) -> None:
        self.plan, self.folder, self.policy = plan, folder, PolicySettings()
        self.names = plan.blueprint.sites
        self.settings = ServerSettings(sites=list(self.names), **{"deadline": 0.25, "join_timeout": 0.1, **settings})
        everyone = range(len(self.names))
        self.sites = {client: self.site(client) for client in everyone}
        self.transport = LocalTransport({client: self.answer_function(client) for client in everyone})
        self.run = folder / "run"
        self.method: Algorithm | None = None
        """A method that the config does not name."""
        self.steps: tuple[ChannelStep, ...] = ()
        """Steps of the channel that the config does not name."""
        self.sum_keys: ServerKeys | None = None
        """The server's keys for sums; ``certify`` makes them and those of the sites."""
        self.engine: DeployedEngine | None = None
        self.roster: Roster | None = None

    def site(self, client: int) -> SiteProcess:
        """A site's process, over whatever its disk has."""
        settings = SiteSettings(
            name=self.names[client], client=client, data=SiteData(rehearsal=True), policy=self.policy
        )
        folder = self.folder / self.names[client]
        return SiteProcess(folder, settings, self.plan.blueprint, self.plan.runtime, SiteState(folder / "kept"))

    def certify(self) -> None:
        """Give everybody certificates of one authority, and what sums share, if there are any."""
        authority, home, folders = Authority.new(1), self.folder / "home", []
        home.mkdir(parents=True)
        authority.publish(home)
        for name in self.names:
            folders.append(self.folder / name)
            authority.publish(folders[-1])
            authority.certify_site(folders[-1], name)
        step = self.plan.runtime.sum_step
        if step is not None:
            write_shared_secret(step, folders, home)
            self.sum_keys = server_keys(home, self.names)

    def answer_function(self, client: int) -> Callable[[bytes], bytes]:
        return lambda data: self.sites[client].answer(data)

    def state_files(self, client: int) -> dict[str, bytes]:
        """What lies on a site's disk."""
        return {path.name: path.read_bytes() for path in (self.folder / self.names[client] / "kept").iterdir()}

    def state(self, client: int) -> dict[str, Tensor]:
        """The rows of the kept state that counts, as the server's next request would name it."""
        assert self.engine is not None
        kept = self.sites[client].states.read(self.engine.tickets.state.get(client, ""))
        return {name: one.rows for name, one in kept.items()}

    def server(self) -> tuple[Prepared, DeployedEngine]:
        """A server's half, begun anew over its folder, as a process that starts does."""
        made, begun = self.plan.blueprint, (self.run / "config.toml").exists()
        saved = last_saved_round(self.run) if begun else None
        self.run.mkdir(parents=True, exist_ok=True)
        self.roster = Roster(self.transport, self.settings, node_keys(len(self.names)), made.plan_digest, made.digest)
        self.roster.wait_for_all(lambda _: None)
        prepared = prepare_deployed_run(made, self.roster, self.settings)
        run = prepared.composition
        changed = replace(run, algorithm=self.method or run.algorithm, steps=self.steps or run.steps)
        prepared = replace(prepared, composition=changed)
        tickets = Tickets(self.run / "tickets.json", saved)
        self.engine = DeployedEngine(
            self.transport, self.roster, tickets, self.settings, prepared.composition.runtime(), self.sum_keys
        )
        return prepared, self.engine

    def play(self, after: Mapping[int, Callable[[], Any]] | None = None) -> History:
        """Play the run from wherever it stands; ``after`` rounds of some numbers something happens."""

        def observe(record: dict[str, Any]) -> None:
            (after or {}).get(record["round"], lambda: None)()

        begun = (self.run / "config.toml").exists()
        prepared, engine = self.server()
        return (resume if begun else execute)(prepared, self.run, [observe], engine)


def simulate(plan: Plan, who: Mapping[int, Sequence[int]] | None = None, folder: Path | None = None) -> History:
    """The run in the simulator, one client after the other, in which the rounds named have only some clients."""
    run = replace(
        plan.prepared.composition,
        execution=replace(plan.prepared.composition.execution, cohort=1),
        select=lambda pool: Choice(list((who or {}).get(pool.round, range(pool.size)))),
    )
    return execute(replace(plan.prepared, composition=run), folder)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting for disks, and short waits for sites: what is written and in which order stays the same."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("fedloom.deploy.server.pending_requests.POLL", 0.02)
    monkeypatch.setattr("fedloom.deploy.server.pending_requests.CONNECTION_CHECK", 0.02)
    monkeypatch.setattr("fedloom.deploy.server.roster.POLL", 0.02)
