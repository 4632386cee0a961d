"""The server's half of a run: Flower's ServerApp, which runs our round loop, in a process of its own.

The SuperLink's own launcher starts it (``start_server_halves``), and not Flower's SuperExec: that gives the token of
the run, by which a process is the run's server, on the command line, where every user of the machine can read it. Here
the token comes on standard input.

The launcher notes the process in the run's folder before it gives it the token: one that dies before it has reached our
round loop is seen to be dead by whoever watches the run, instead of being waited for.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from queue import Queue
from typing import Any, NoReturn

from fedloom.deploy.flower.local_socket import HOST, LINK_SOCKET, client_class, connection_errors
from fedloom.deploy.flower.polling import PollDelay
from fedloom.deploy.flower.release import LEAN_MEMORY, replace_attribute
from fedloom.deploy.flower.server_transport import ServerTransport
from fedloom.deploy.participant_folder import OUTCOME, RUN, SERVING
from fedloom.files.atomic_write import write_atomic

MODULE = "fedloom.deploy.flower.server_half"
log = logging.getLogger("fedloom")


def start_server_halves(folder: Path) -> NoReturn:
    """Start a process for each run that is submitted to the SuperLink, for ever."""
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.constant import TaskType
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
    from flwr.supercore.runtime import RuntimeHttpClient

    kind = client_class(RuntimeHttpClient, folder / LINK_SOCKET)
    passes = [RuntimeVersionHttpInterceptor(component_name="SuperExec")]
    client = kind.from_server_address(HOST, False, (folder / "ca.crt").read_bytes(), passes)
    request = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
    started: list[subprocess.Popen[bytes]] = []
    delay = PollDelay()  # ten requests in a second keep an idle SuperLink busy
    while True:
        delay.sleep()
        started = [process for process in started if process.poll() is None]  # an ended one stays until it is asked for
        try:
            token = client.AcquireTask(request).token
        except connection_errors():  # the SuperLink is starting or ending
            continue
        if token:
            delay.reset()
            try:
                started.append(_start_server_half(folder, token))
            except OSError as why:  # no memory, no process numbers, no disk: a later run may find some
                error = f"the server half of the run did not start ({why}): repeat fedloom deploy run."
                log.error("%s", error)
                with contextlib.suppress(OSError):
                    write_atomic(folder / RUN / OUTCOME, json.dumps({"error": error}).encode())


def _start_server_half(folder: Path, token: str) -> subprocess.Popen[bytes]:
    usual = {name: value for name, value in os.environ.items() if name not in LEAN_MEMORY}  # it computes
    command = [sys.executable, "-P", "-m", MODULE, str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env=usual)  # noqa: S603
    if process.stdin is not None:
        with process.stdin as pipe, contextlib.suppress(BrokenPipeError):  # it has died already
            write_atomic(folder / RUN / SERVING, json.dumps({"process": process.pid, "starting": True}).encode())
            pipe.write(token.encode())
            pipe.flush()
    return process


def server_app() -> Any:
    """Flower's ServerApp that runs our round loop."""
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: Any, context: Any) -> None:
        from fedloom.deploy.server.serve import serve

        serve(ServerTransport(grid), Path(str(context.run_config["folder"])))

    return app


def client_app() -> Any:
    """The ClientApp that Flower's app format requires; sites answer in their own process and never run it."""
    from flwr.clientapp import ClientApp

    return ClientApp()


def main(folder: Path, token: str) -> None:
    """Run the ServerApp of a run; its output is that of the SuperLink, which keeps no copy of it in memory."""
    from flwr.supercore.runtime import RuntimeHttpClient
    from flwr.superlink.grid import http_grid
    from flwr.superlink.runtime import run_serverapp

    replace_attribute(http_grid, "RuntimeHttpClient", client_class(RuntimeHttpClient, folder / LINK_SOCKET))
    run_serverapp(
        runtime_api_address=HOST,
        log_queue=Queue(),
        token=token,
        insecure=False,
        certificates=(folder / "ca.crt").read_bytes(),
        parent_pid=os.getppid(),
        runtime_dependency_install=False,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.stdin.read())
