"""``fedloom deploy client``: Flower's SuperNode, which holds the connection, and the site's own process."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import fedloom
from fedloom.core.errors import FedloomError
from fedloom.deploy import audit_log
from fedloom.deploy.flower.release import LEAN_MEMORY, check_flower, environment
from fedloom.deploy.flower.supernode import NODE_FAILED, NODE_READY, NODE_RETRIES, supernode_command
from fedloom.deploy.operate.ask_server import ServerContact, check_dates
from fedloom.deploy.operate.connection_error import connection_error, last_line
from fedloom.deploy.operate.expiry_watch import ExpiryWatch
from fedloom.deploy.operate.log_rotation import LogRotation
from fedloom.deploy.operate.programs import (
    Program,
    start_program,
    wait_until_ready,
)
from fedloom.deploy.operate.supervise import LinePrinter, keep_running, pid_file, stop_on_sigterm, stop_reason
from fedloom.deploy.participant_folder import FLOWER, SITE_FILE
from fedloom.deploy.provision.change_files import finish_change
from fedloom.deploy.provision.signature import check_signature
from fedloom.deploy.settings import OPENED, READY, SiteSettings, load_site, refuse_other_participant


def run_site(folder: Path, say: LinePrinter) -> None:
    """Run a site until it is stopped."""
    check_flower()
    finish_change(folder)
    settings = load_site(folder)
    if not settings.server.rpartition(":")[2].isdigit():
        raise FedloomError(
            f"server = '{settings.server}' in {folder / SITE_FILE} has no port: write it as host:port, for instance "
            "fl.example.org:8443."
        )
    check_dates(folder, settings)
    refuse_other_participant(folder)
    check_signature(folder)
    pids = pid_file(folder)
    pids.take(f"site {settings.name}")
    programs: list[Program] = []

    def take_renewed() -> None:
        for program in programs[1:]:
            program.stop()  # it is started again, with the new certificate

    contact = ServerContact(folder, settings, say, take_renewed)
    try:
        stop_on_sigterm()
        contact.check()
        programs.append(_start_site_process(folder))
        audit_log.append_changed_settings(folder, SITE_FILE)
        audit_log.append(folder, "site started", version=fedloom.__version__)
        programs.append(start_supernode(folder, settings, contact, say))
        wait_until_ready(programs[0], lambda: READY in programs[0].output(), _site_error)
        say(f"Site {settings.name} is connected to {settings.server}.")

        def restart_site_process() -> Program:
            contact.problem()  # raises an error if the server refuses the site: then nothing is restarted
            return _start_site_process(folder)

        keep_running(
            programs,
            [restart_site_process, lambda: start_supernode(folder, settings, contact, say)],
            say,
            [ExpiryWatch(folder, say).check, contact.check, LogRotation(folder).check],
            together=True,
        )
    finally:
        for program in reversed(programs):
            program.stop()
        pids.leave()
        if programs:
            audit_log.append(folder, "site stopped", reason=stop_reason())


def _start_site_process(folder: Path) -> Program:
    command = [sys.executable, "-P", "-m", "fedloom.deploy.site.process", str(folder.resolve())]
    log_file = folder / "logs" / "site.log"
    program = start_program("the site's process", command, log_file, environment(folder / FLOWER), folder)
    wait_until_ready(program, lambda: OPENED in program.output(), _site_error)
    return program


def start_supernode(folder: Path, settings: SiteSettings, contact: ServerContact, say: LinePrinter) -> Program:
    """Start Flower's SuperNode, and wait until the server has admitted it."""
    command = supernode_command(folder.resolve())
    log_file = folder / "logs" / "supernode.log"
    lean = environment(folder / FLOWER) | LEAN_MEMORY
    program = start_program("Flower's SuperNode", command, log_file, lean, folder)
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
    return errors[-1] if errors else f"the site's process ended: {last_line(output)}"
