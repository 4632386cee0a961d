"""``fedloom deploy server`` and ``fedloom deploy client``: start a participant's programs and keep them running.

The server runs Flower's SuperLink, on loopback, and nginx in front of it. A site runs Flower's SuperNode and its own
process. A program that dies is started again, and its errors are explained.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import fedloom
from fedloom.core.errors import FedloomError
from fedloom.deploy import audit_log
from fedloom.deploy.flower.control import SuperLinkControl
from fedloom.deploy.flower.local_socket import connection_errors
from fedloom.deploy.flower.release import check_flower, environment
from fedloom.deploy.flower.superlink import superlink_command
from fedloom.deploy.flower.supernode import NODE_FAILED, NODE_READY, NODE_RETRIES, supernode_command
from fedloom.deploy.operate.admission import Admission, register_members
from fedloom.deploy.operate.ask_server import ServerContact, SiteRefused, check_dates
from fedloom.deploy.operate.expiry_watch import ExpiryWatch
from fedloom.deploy.operate.log_rotation import LogRotation
from fedloom.deploy.operate.programs import (
    PidFile,
    Program,
    check_free,
    is_listening,
    start_program,
    wait_until_ready,
)
from fedloom.deploy.operate.reception import open_reception
from fedloom.deploy.participant_folder import FLOWER, SERVER_FILE, SITE_FILE, make_private
from fedloom.deploy.provision.certificates import check_certificates
from fedloom.deploy.provision.change_files import finish_change
from fedloom.deploy.provision.proxy import CONFIG as PROXY_FILE
from fedloom.deploy.provision.proxy import write_proxy_config
from fedloom.deploy.provision.signature import check_signature
from fedloom.deploy.settings import OPENED, READY, ServerSettings, SiteSettings, load_server, load_site

log = logging.getLogger("fedloom")
Say = Callable[[str], None]
PAUSE = 1.0
"""Seconds before a program that died is restarted."""
TOO_SOON, TOO_OFTEN = 30.0, 8
"""After this many deaths, in this many seconds each on average, a program is not restarted any more."""


def pid_file(folder: Path) -> PidFile:
    """The file that records which process uses a participant's folder."""
    return PidFile(folder / FLOWER / "process")


def run_server(folder: Path, say: Say) -> None:
    """Run a deployment's server until it is stopped.

    Args:
        folder: The server's folder.
        say: Gets lines for the user.
    """
    check_flower()
    finish_change(folder)
    settings = load_server(folder)
    check_certificates(folder)
    check_signature(folder)
    if settings.proxy and shutil.which("nginx") is None:
        raise FedloomError(
            "nginx is not installed, but sites connect through it: install it (apt install nginx), or set proxy = "
            "false in deploy.toml to try the deployment on one machine."
        )
    if not settings.proxy and not settings.is_local:
        raise FedloomError(
            f"proxy = false and host = {settings.host}: without the proxy nobody asks for the sites' "
            "certificates, so that is for one machine only; set proxy = true."
        )
    pids = pid_file(folder)
    pids.take("this server")
    programs: list[Program] = []
    desk = contextlib.ExitStack()
    try:
        _stop_on_sigterm()
        check_free(settings.port, "port in deploy.toml", settings.loopback)
        if settings.proxy:
            check_free(settings.control_port, "control_port in deploy.toml")
        programs.append(_start_superlink(folder, settings))
        audit_log.append_changed_settings(folder, SERVER_FILE)
        audit_log.append(folder, "server started", version=fedloom.__version__)
        admitted = register_members(folder, settings, SuperLinkControl(folder))
        if settings.proxy:
            desk.enter_context(open_reception(folder, say))
            programs.append(_start_nginx(folder, settings))
        say(f"The server is ready: {admitted} sites may connect to {settings.host}:{settings.port}.")
        restart = [lambda: _restart_superlink(folder), lambda: _start_nginx(folder, load_server(folder))]

        def reload_nginx(changed: ServerSettings) -> None:
            write_proxy_config(folder, changed)
            programs[1].process.send_signal(signal.SIGHUP)

        admission = Admission(folder, lambda: SuperLinkControl(folder), reload_nginx if settings.proxy else None, say)
        expiry = ExpiryWatch(folder, say)
        _watch(programs, restart, say, [admission.apply_changes, expiry.check, LogRotation(folder).check])
    finally:
        desk.close()
        for program in reversed(programs):
            program.stop()
        pids.leave()
        if programs:
            audit_log.append(folder, "server stopped", reason=_reason())


def _start_superlink(folder: Path, settings: ServerSettings) -> Program:
    home = make_private(folder / FLOWER)
    command = superlink_command(folder.resolve())
    program = start_program("Flower's SuperLink", command, folder / "logs" / "superlink.log", environment(home), folder)
    wait_until_ready(
        program,
        lambda: is_listening(settings.link_port, settings.link_host),
        lambda output: f"Flower's SuperLink did not start: {_last_line(output)}",
    )
    return program


def _restart_superlink(folder: Path) -> Program:
    settings = load_server(folder)  # sites may have been added
    program = _start_superlink(folder, settings)
    try:
        register_members(folder, settings, SuperLinkControl(folder))
    except connection_errors() as why:
        program.stop()
        raise FedloomError(f"the sites could not be registered ({type(why).__name__}).") from None
    return program


def _start_nginx(folder: Path, settings: ServerSettings) -> Program:
    write_proxy_config(folder, settings)  # deploy.toml may have changed
    command = ["nginx", "-p", str(folder.resolve()), "-c", PROXY_FILE, "-g", "daemon off;"]
    program = start_program("nginx", command, folder / "logs" / "nginx.log", os.environ, folder)
    wait_until_ready(
        program,
        lambda: is_listening(settings.port, settings.loopback),
        lambda output: f"nginx did not start: {_last_line(output)}",
    )
    return program


def run_site(folder: Path, say: Say) -> None:
    """Run a site until it is stopped.

    Args:
        folder: The site's folder.
        say: Gets lines for the user.
    """
    check_flower()
    finish_change(folder)
    settings = load_site(folder)
    if not settings.server.rpartition(":")[2].isdigit():
        raise FedloomError(
            f"server = '{settings.server}' in {folder / SITE_FILE} has no port: write it as host:port, for instance "
            "fl.example.org:8443."
        )
    check_dates(folder, settings)
    check_signature(folder)
    pids = pid_file(folder)
    pids.take(f"site {settings.name}")
    programs: list[Program] = []

    def take_renewed() -> None:
        for program in programs[1:]:
            program.stop()  # it is started again, with the new certificate

    contact = ServerContact(folder, settings, say, take_renewed)
    try:
        _stop_on_sigterm()
        contact.check()
        programs.append(_start_site_process(folder))
        audit_log.append_changed_settings(folder, SITE_FILE)
        audit_log.append(folder, "site started", version=fedloom.__version__)
        programs.append(_start_supernode(folder, settings, contact, say))
        wait_until_ready(programs[0], lambda: READY in programs[0].output(), _site_error)
        say(f"Site {settings.name} is connected to {settings.server}.")

        def restart_site_process() -> Program:
            contact.problem()  # raises an error if the server refuses the site: then nothing is restarted
            return _start_site_process(folder)

        _watch(
            programs,
            [restart_site_process, lambda: _start_supernode(folder, settings, contact, say)],
            say,
            [ExpiryWatch(folder, say).check, contact.check, LogRotation(folder).check],
            together=True,
        )
    finally:
        for program in reversed(programs):
            program.stop()
        pids.leave()
        if programs:
            audit_log.append(folder, "site stopped", reason=_reason())


def _start_site_process(folder: Path) -> Program:
    command = [sys.executable, "-P", "-m", "fedloom.deploy.site.process", str(folder.resolve())]
    log_file = folder / "logs" / "site.log"
    program = start_program("the site's process", command, log_file, environment(folder / FLOWER), folder)
    wait_until_ready(program, lambda: OPENED in program.output(), _site_error)
    return program


def _start_supernode(folder: Path, settings: SiteSettings, contact: ServerContact, say: Say) -> Program:
    command = supernode_command(folder.resolve())
    log_file = folder / "logs" / "supernode.log"
    program = start_program("Flower's SuperNode", command, log_file, environment(folder / FLOWER), folder)
    waits: list[str] = []

    def ready() -> bool:
        output = program.output()
        if NODE_RETRIES in output and not waits:
            waits.append(contact.problem() or "it does not admit this site yet")
            say(
                f"Site {settings.name} cannot reach the server at {settings.server} yet: {waits[0]}. It keeps trying; "
                "the address is `server` in site.toml."
            )
        contact.check()
        return NODE_READY in output

    def explain(output: str) -> str:
        contact.problem()  # it raises the server's own reason, if there is one
        return f"site {settings.name} cannot connect to {settings.server}: {connection_error(output)}"

    wait_until_ready(program, ready, explain, NODE_FAILED, math.inf)  # the server may start after its sites
    return program


def _site_error(output: str) -> str:
    errors = [line.removeprefix("Error: ") for line in output.splitlines() if line.startswith("Error: ")]
    return errors[-1] if errors else f"the site's process ended: {_last_line(output)}"


CONNECTION_ERRORS = {
    "certificate has expired": "a certificate has expired: ask the operator for a renewed one.",
    "certificate is not yet valid": "a certificate is not valid yet: set this machine's clock.",
    "certificate is not valid for": "the server's certificate is for another address: check `server` in site.toml.",
    "CERTIFICATE_VERIFY_FAILED": "the server's certificate is not from this site's authority (ca.crt): get a folder of "
    "this deployment from its operator.",
    "Invalid SuperNode authentication": "the server does not know this site's key, or this machine's clock is off: ask "
    "the operator.",
    "No SuperNode found": "the server does not know this site's key: the operator must register it.",
    "code: 2004": "the server does not know this site's key, or another machine uses it now: ask the operator.",
    "400 Bad Request": "the server did not accept this site's certificate: get a folder of this deployment from its "
    "operator.",
    "WRONG_VERSION_NUMBER": "the server does not use TLS: check `server` in site.toml.",
    "TLSV1_ALERT": "the server did not accept this site's certificate: get a folder of this deployment from its "
    "operator.",
    "Connection refused": "the connection was refused: check `server` in site.toml, and whether the server is running.",
    "Name or service not known": "no machine has that name: check `server` in site.toml.",
    "incompatible": "server and site have different versions of Flower: install the same on both.",
}
"""Parts of Flower's output, and their meaning."""


def connection_error(output: str) -> str:
    """Why a SuperNode cannot connect, from its output."""
    return next((meaning for sign, meaning in CONNECTION_ERRORS.items() if sign in output), _last_line(output))


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it printed nothing"


def _watch(
    programs: list[Program],
    restart: list[Callable[[], Program]],
    say: Say,
    checks: Sequence[Callable[[], None]] = (),
    together: bool = False,
) -> NoReturn:
    """Restart programs that die; with ``together`` all of them, since a SuperNode forgets its site's current work.

    ``checks`` are called a few times per second; an error of theirs ends it.
    """
    deaths: list[float] = []
    while True:
        time.sleep(0.2)
        for check in checks:
            check()
        dead = [place for place, program in enumerate(programs) if program.has_ended]
        if not dead:
            continue
        first, now = programs[dead[0]], time.monotonic()
        deaths = [*[moment for moment in deaths if now - moment < TOO_SOON * TOO_OFTEN], now]
        if len(deaths) >= TOO_OFTEN:
            raise FedloomError(
                f"{first.name} ended {TOO_OFTEN} times: {connection_error(first.output())} ({first.log})"
            )
        say(f"{first.name} ended (code {first.process.returncode}): it is restarted.")
        time.sleep(PAUSE * len(deaths))
        places = list(range(len(programs))) if together else dead
        for place in places:
            programs[place].kill()
        try:
            for place in places:
                programs[place] = restart[place]()
        except SiteRefused:
            raise
        except FedloomError as why:  # a server that has just restarted may not have registered its sites yet
            say(f"{why} It will be tried again.")


def _reason() -> str:
    """Why a participant's programs end: the sentence of the error that ends them, or that somebody asked for it."""
    error = sys.exception()
    return str(error) if isinstance(error, FedloomError) else "asked to stop"


def _stop_on_sigterm() -> None:
    def stop(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
