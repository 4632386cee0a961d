"""``fedloom deploy server`` and ``fedloom deploy client``: start what a participant needs, and keep it running.

The server has Flower's SuperLink, on loopback, and nginx in front of it. A site has Flower's SuperNode and its own
process. A program that dies is started again, and what it says is put into words.
"""

from __future__ import annotations

import logging
import math
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from fedloom.core.errors import FedloomError
from fedloom.deploy import flower
from fedloom.deploy.operate.programs import PidFile, Program, check_free, listening, start, unreachable, wait
from fedloom.deploy.provision import certificates
from fedloom.deploy.provision.proxy import CONFIG as PROXY_FILE
from fedloom.deploy.provision.proxy import FOLDER as PROXY_FOLDER
from fedloom.deploy.provision.proxy import nginx_config
from fedloom.deploy.settings import OPENED, READY, SITE_FILE, ServerSettings, SiteSettings, load_server, load_site

log = logging.getLogger("fedloom")
Say = Callable[[str], None]
PAUSE = 1.0
"""Seconds before a program that died is started again."""
TOO_SOON, TOO_OFTEN = 30.0, 8
"""A program that dies this many times, each within so many seconds, is given up."""


def pid_file(folder: Path) -> PidFile:
    """Which process is at work in a participant's folder."""
    return PidFile(folder / "flower" / "process")


def server(folder: Path, say: Say) -> None:
    """Run a deployment's server until it is stopped."""
    flower.check_installed()
    settings = load_server(folder)
    certificates.check(folder)
    if settings.proxy and shutil.which("nginx") is None:
        raise FedloomError(
            "nginx is not installed, and sites reach this server through it: install it (apt install nginx), or set "
            "proxy = false in deploy.toml to try things out on one machine."
        )
    if not settings.proxy and settings.host not in ("127.0.0.1", "localhost"):
        raise FedloomError(
            f"proxy = false and host = {settings.host}: without the proxy whoever holds ca.crt could let nodes in and "
            "start runs, so it is for one machine only; set proxy = true."
        )
    pids = pid_file(folder)
    pids.take("this server")
    programs: list[Program] = []
    try:
        _on_signals()
        check_free(settings.port, "port in deploy.toml")
        if settings.proxy:
            check_free(settings.control_port, "control_port in deploy.toml")
        programs.append(_superlink(folder, settings))
        known = _register(folder, settings)
        if settings.proxy:
            programs.append(_nginx(folder, settings))
        say(f"The server is ready: {known} sites may connect to {settings.host}:{settings.port}.")
        restart = [lambda: _superlink_again(folder, settings), lambda: _nginx(folder, settings)]
        _watch(programs, restart, say)
    finally:
        for program in reversed(programs):
            program.stop()
        pids.leave()


def link_port(settings: ServerSettings) -> int:
    """The SuperLink's own port."""
    return settings.control_port if settings.proxy else settings.port


def control(folder: Path) -> flower.Control:
    """The control of a server's SuperLink."""
    return flower.Control(link_port(load_server(folder)), folder / "ca.crt")


def _superlink(folder: Path, settings: ServerSettings) -> Program:
    home, port = folder / "flower", link_port(settings)
    flower.write_connection(home, port, folder / "ca.crt")
    command = flower.superlink(folder.resolve(), port)
    program = start("Flower's SuperLink", command, folder / "logs" / "superlink.log", flower.environment(home), folder)
    wait(program, lambda: listening(port), lambda said: f"Flower's SuperLink did not start: {_last(said)}")
    return program


def _superlink_again(folder: Path, settings: ServerSettings) -> Program:
    program = _superlink(folder, settings)
    try:
        _register(folder, settings)
    except flower.unreachable() as why:
        program.stop()
        raise FedloomError(f"the sites could not be let in ({type(why).__name__}).") from None
    return program


def _nginx(folder: Path, settings: ServerSettings) -> Program:
    (folder / PROXY_FOLDER).mkdir(exist_ok=True)
    (folder / PROXY_FILE).write_text(nginx_config(settings))  # deploy.toml may have changed
    command = ["nginx", "-p", str(folder.resolve()), "-c", PROXY_FILE, "-g", "daemon off;"]
    program = start("nginx", command, folder / "logs" / "nginx.log", flower.environment(folder / "flower"), folder)
    wait(program, lambda: listening(settings.port), lambda said: f"nginx did not start: {_last(said)}")
    return program


def _register(folder: Path, settings: ServerSettings) -> int:
    """Let the sites' nodes in, and only those; how many there are."""
    names = settings.everyone
    link = control(folder)
    keys = {flower.key_of(folder / "keys" / f"{name}.pub") for name in names}
    for key in keys - {node.key for node in link.nodes()}:
        link.register(key)
    return len(names)


def client(folder: Path, say: Say) -> None:
    """Run a site until it is stopped."""
    flower.check_installed()
    settings = load_site(folder)
    if not settings.server.rpartition(":")[2].isdigit():
        raise FedloomError(
            f"server = '{settings.server}' in {folder / SITE_FILE} has no port: write it as host:port, for instance "
            "fl.example.org:8443."
        )
    certificates.check(folder)
    pids = pid_file(folder)
    pids.take(f"site {settings.name}")
    programs: list[Program] = []
    try:
        _on_signals()
        check_free(settings.port, "port in site.toml")
        programs.append(_station(folder))
        programs.append(_supernode(folder, settings, say))
        wait(programs[0], lambda: READY in programs[0].said(), _site_words)
        say(f"Site {settings.name} is connected to {settings.server}.")
        _watch(programs, [lambda: _station(folder), lambda: _supernode(folder, settings, say)], say, together=True)
    finally:
        for program in reversed(programs):
            program.stop()
        pids.leave()


def _station(folder: Path) -> Program:
    command = [sys.executable, "-m", "fedloom.deploy.site.process", str(folder.resolve())]
    log_file = folder / "logs" / "site.log"
    program = start("the site's process", command, log_file, flower.environment(folder / "flower"), folder)
    wait(program, lambda: OPENED in program.said(), _site_words)
    return program


def _supernode(folder: Path, settings: SiteSettings, say: Say = log.warning) -> Program:
    command = flower.supernode(folder.resolve(), settings.server, settings.port)
    log_file = folder / "logs" / "supernode.log"
    program = start("Flower's SuperNode", command, log_file, flower.environment(folder / "flower"), folder)
    waits: list[str] = []

    def ready() -> bool:
        said = program.said()
        if flower.NODE_RETRIES in said and not waits:
            waits.append(unreachable(settings.server) or "it does not take this site in yet")
            say(
                f"Site {settings.name} waits for the server at {settings.server}: {waits[0]}. It goes on trying; "
                "`server` in site.toml says where."
            )
        return flower.NODE_READY in said

    def words(said: str) -> str:
        return f"site {settings.name} cannot connect to {settings.server}: {connection_trouble(said)}"

    wait(program, ready, words, flower.NODE_FAILED, math.inf)  # a server may come up after its sites
    return program


def _site_words(said: str) -> str:
    errors = [line.removeprefix("Error: ") for line in said.splitlines() if line.startswith("Error: ")]
    return errors[-1] if errors else f"the site's process ended: {_last(said)}"


TROUBLES = {
    "certificate has expired": "a certificate has expired: ask the operator for a new folder.",
    "certificate is not yet valid": "a certificate is not valid yet: set this machine's clock.",
    "certificate is not valid for": "the server's certificate is for another address: check `server` in site.toml.",
    "CERTIFICATE_VERIFY_FAILED": "the server's certificate is not from this site's authority (ca.crt): get a folder of "
    "this deployment from its operator.",
    "Invalid SuperNode authentication": "the server does not know this site's key: the operator must let it in.",
    "No SuperNode found": "the server does not know this site's key: the operator must let it in.",
    "code: 2004": "the server does not know this site's key: the operator must let it in.",
    "400 Bad Request": "the server did not take this site's certificate: get a folder of this deployment from its "
    "operator.",
    "WRONG_VERSION_NUMBER": "the other side does not speak TLS: check `server` in site.toml.",
    "TLSV1_ALERT": "the server did not take this site's certificate: get a folder of this deployment from its "
    "operator.",
    "Connection refused": "nobody is there: check `server` in site.toml, and whether the server is running.",
    "Name or service not known": "there is no such machine: check `server` in site.toml.",
    "incompatible": "the two sides have different versions of Flower: install the same on both.",
}
"""What is in Flower's output, and what it means."""


def connection_trouble(said: str) -> str:
    """What a SuperNode's output says of why it cannot connect."""
    return next((meaning for sign, meaning in TROUBLES.items() if sign in said), _last(said))


def _last(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"


def _watch(programs: list[Program], again: list[Callable[[], Program]], say: Say, together: bool = False) -> NoReturn:
    """Start programs anew that die; ``together`` all of them, since a SuperNode forgets what its site was doing."""
    deaths: list[float] = []
    while True:
        time.sleep(0.2)
        dead = [place for place, program in enumerate(programs) if program.ended]
        if not dead:
            continue
        first, now = programs[dead[0]], time.monotonic()
        deaths = [*[moment for moment in deaths if now - moment < TOO_SOON * TOO_OFTEN], now]
        if len(deaths) >= TOO_OFTEN:
            raise FedloomError(
                f"{first.name} ended {TOO_OFTEN} times: {connection_trouble(first.said())} ({first.log})"
            )
        say(f"{first.name} ended (code {first.process.returncode}): it is started again.")
        time.sleep(PAUSE * len(deaths))
        places = list(range(len(programs))) if together else dead
        for place in places:
            programs[place].kill()
        try:
            for place in places:
                programs[place] = again[place]()
        except FedloomError as why:  # a server that has just come back may not have let its sites in yet
            say(f"{why} It is tried again.")


def _on_signals() -> None:
    def stop(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
