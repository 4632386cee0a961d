"""``fedloom deploy server``: Flower's SuperLink, on loopback, and nginx in front of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path

import fedloom
from fedloom.core.errors import FedloomError
from fedloom.deploy import audit_log
from fedloom.deploy.flower.control import SuperLinkControl
from fedloom.deploy.flower.local_socket import connection_errors
from fedloom.deploy.flower.release import LEAN_MEMORY, check_flower, environment
from fedloom.deploy.flower.superlink import superlink_command
from fedloom.deploy.operate.admission import Admission, register_members
from fedloom.deploy.operate.connection_error import last_line
from fedloom.deploy.operate.expiry_watch import ExpiryWatch
from fedloom.deploy.operate.handshake_watch import HandshakeWatch
from fedloom.deploy.operate.log_rotation import LogRotation
from fedloom.deploy.operate.programs import (
    Program,
    check_free,
    is_listening,
    start_program,
    wait_until_ready,
)
from fedloom.deploy.operate.reception import open_reception
from fedloom.deploy.operate.supervise import LinePrinter, keep_running, pid_file, stop_on_sigterm, stop_reason
from fedloom.deploy.participant_folder import FLOWER, SERVER_FILE, make_private
from fedloom.deploy.provision.address_limit import SOCKET, load_stream
from fedloom.deploy.provision.certificates import check_certificates
from fedloom.deploy.provision.change_files import finish_change
from fedloom.deploy.provision.proxy import CONFIG as PROXY_FILE
from fedloom.deploy.provision.proxy import write_proxy_config
from fedloom.deploy.provision.signature import check_signature
from fedloom.deploy.settings import ServerSettings, load_server, refuse_other_participant

NO_LIMIT = (
    "This nginx has no stream module, so it does not limit connections by their address before a TLS handshake: apt "
    "install libnginx-mod-stream, or let the firewall do it."
)


def run_server(folder: Path, say: LinePrinter) -> None:
    """Run a deployment's server until it is stopped."""
    check_flower()
    finish_change(folder)
    settings = load_server(folder)
    check_certificates(folder)
    refuse_other_participant(folder)
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
        stop_on_sigterm()
        check_free(settings.port, "port in deploy.toml", settings.loopback)
        if settings.proxy:
            check_free(settings.control_port, "control_port in deploy.toml")
        programs.append(start_superlink(folder, settings))
        audit_log.append_changed_settings(folder, SERVER_FILE)
        audit_log.append(folder, "server started", version=fedloom.__version__)
        admitted = register_members(folder, settings, SuperLinkControl(folder))
        if settings.proxy:
            desk.enter_context(open_reception(folder, say))
            programs.append(_start_nginx(folder, settings))
            if load_stream() is None:
                say(NO_LIMIT)
        say(f"The server is ready: {admitted} sites may connect to {settings.host}:{settings.port}.")
        restart = [lambda: _restart_superlink(folder), lambda: _start_nginx(folder, load_server(folder))]

        def reload_nginx(changed: ServerSettings) -> None:
            write_proxy_config(folder, changed)
            programs[1].process.send_signal(signal.SIGHUP)

        admission = Admission(folder, lambda: SuperLinkControl(folder), reload_nginx if settings.proxy else None, say)
        expiry, handshakes = ExpiryWatch(folder, say), HandshakeWatch(folder, say)
        # handshakes are counted before their log may be emptied
        checks = [admission.apply_changes, expiry.check, handshakes.check, LogRotation(folder).check]
        keep_running(programs, restart, say, checks)
    finally:
        desk.close()
        for program in reversed(programs):
            program.stop()
        pids.leave()
        if programs:
            audit_log.append(folder, "server stopped", reason=stop_reason())


def start_superlink(folder: Path, settings: ServerSettings) -> Program:
    """Start Flower's SuperLink, and wait until it listens."""
    home = make_private(folder / FLOWER)
    command = superlink_command(folder.resolve())
    log_file, lean = folder / "logs" / "superlink.log", environment(home) | LEAN_MEMORY
    program = start_program("Flower's SuperLink", command, log_file, lean, folder)
    wait_until_ready(
        program,
        lambda: is_listening(settings.link_port, settings.link_host),
        lambda output: f"Flower's SuperLink did not start: {last_line(output)}",
    )
    return program


def _restart_superlink(folder: Path) -> Program:
    settings = load_server(folder)  # sites may have been added
    program = start_superlink(folder, settings)
    try:
        register_members(folder, settings, SuperLinkControl(folder))
    except connection_errors() as why:
        program.stop()
        raise FedloomError(f"the sites could not be registered ({type(why).__name__}).") from None
    return program


def _start_nginx(folder: Path, settings: ServerSettings) -> Program:
    write_proxy_config(folder, settings)  # deploy.toml may have changed
    (folder / SOCKET).unlink(missing_ok=True)  # of an nginx that was killed
    command = ["nginx", "-p", str(folder.resolve()), "-c", PROXY_FILE, "-g", "daemon off;"]
    program = start_program("nginx", command, folder / "logs" / "nginx.log", os.environ, folder)
    wait_until_ready(
        program,
        lambda: is_listening(settings.port, settings.loopback),
        lambda output: f"nginx did not start: {last_line(output)}",
    )
    return program
