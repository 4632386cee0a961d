"""Programs that a deployment starts: begun with their output in a log, watched, and ended with whoever began them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedloom.core.errors import FedloomError

STARTING = 120.0
"""Seconds that a program may take until it is ready."""
REMEMBERED = 1 << 18
"""Bytes of a program's output that are looked at."""
ENDING = 10.0
"""Seconds that a program may take to end by itself."""
LETTING_GO = 5.0
"""Seconds that a port may stay taken by a program that is ending."""
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


@dataclass
class Program:
    """A running program and where its output goes."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    began: int
    """Where in the log this program's own output begins."""

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.process.poll() is not None

    def said(self) -> str:
        """What it has said so far; of much, the end."""
        with open(self.log, "rb") as file:
            file.seek(max(self.began, file.seek(0, os.SEEK_END) - REMEMBERED))
            return file.read().decode(errors="replace")

    def stop(self) -> None:
        """Ask it to end, and after a while make it; and whatever it has started itself."""
        if not self.ended:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(ENDING)
        self.kill()

    def kill(self) -> None:
        """End it at once, and whatever it has started itself; it has no time to say goodbye."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def start(name: str, command: Sequence[str], log: Path, environment: Mapping[str, str], folder: Path) -> Program:
    """Start a program that ends when this process does, however this process ends."""
    log.parent.mkdir(parents=True, exist_ok=True)
    began = log.stat().st_size if log.exists() else 0
    with open(log, "ab") as file:
        process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=dict(environment), cwd=folder,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None, start_new_session=True,
        )  # fmt: skip
    return Program(name, process, log, began)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGTERM)


def wait(
    program: Program,
    ready: Callable[[], bool],
    words: Callable[[str], str],
    failed: str | None = None,
    seconds: float = STARTING,
) -> None:
    """Wait until a program is ready; one that ends, says that it ``failed``, or takes too long, is told of in words."""
    end = time.monotonic() + seconds
    while not ready():
        if program.ended or (failed is not None and failed in program.said()):
            time.sleep(0.1)  # the reason may come after the word
            said = program.said()
            program.stop()
            raise FedloomError(words(said))
        if time.monotonic() > end:
            program.stop()
            raise FedloomError(f"{program.name} was not ready within {seconds:g} s: {words(program.said())}")
        time.sleep(0.05)


def check_free(port: int, what: str) -> None:
    """Refuse a port that another program has, and keeps: one that was just killed may need a moment to let go of it."""
    end = time.monotonic() + LETTING_GO
    while (taken := _taken(port)) is not None:
        if time.monotonic() > end:
            raise FedloomError(
                f"port {port} of this machine is taken ({taken}): end the program that has it, or change {what}."
            )
        time.sleep(0.1)


def _taken(port: int) -> str | None:
    """Why a port cannot be had, if it cannot."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            return error.strerror
    return None


def listening(port: int) -> bool:
    """Whether a program of this machine takes connections on a port."""
    with socket.socket() as trial:
        trial.settimeout(1)
        return trial.connect_ex(("127.0.0.1", port)) == 0


def unreachable(address: str) -> str:
    """Why nobody answers at an address of another machine, in words; nothing where somebody does."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except ValueError:
        return "that is no address: write it as host:port"
    except socket.gaierror:
        return "there is no machine of that name"
    except TimeoutError:
        return "no answer from that machine: a firewall may be in between"
    except OSError:
        return "nobody is there, perhaps the server is not running"
    return ""


def _began(process: int) -> str:
    """When a process began, where the system tells: after a restart its number may be another process's."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


class PidFile:
    """Says which process is at work in a folder; two at once are refused."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def process(self) -> int | None:
        """The process at work, if there is one."""
        try:
            number, began = self.path.read_text().split(" ")
            os.kill(int(number), 0)
        except (OSError, ValueError):
            return None
        return int(number) if began == _began(int(number)) else None

    def take(self, what: str) -> None:
        """Note that this process is at work."""
        if self.process() is not None:
            raise FedloomError(f"{what} is already running (process {self.process()}): fedloom deploy stop ends it.")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(f"{os.getpid()} {_began(os.getpid())}")

    def stop(self) -> bool:
        """End the process at work and wait for it; whether there was one."""
        number = self.process()
        if number is None:
            return False
        os.kill(number, signal.SIGTERM)
        end = time.monotonic() + 3 * ENDING
        while self.process() is not None and time.monotonic() < end:
            time.sleep(0.05)
        if self.process() is not None:
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
        return True

    def leave(self) -> None:
        """Note that nobody is at work any more."""
        self.path.unlink(missing_ok=True)
