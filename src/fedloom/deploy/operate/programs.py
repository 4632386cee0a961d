"""Programs that a deployment starts: their output goes to a log, and they end with the process that started them."""

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
from dataclasses import dataclass, field
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.deploy.operate.log_rotation import old_log
from fedloom.deploy.participant_folder import make_private
from fedloom.files.private_log import open_private_log
from fedloom.files.regular_file import read_regular

STARTING = 120.0
"""Seconds in which a program must be ready."""
OUTPUT_KEPT = 1 << 18
"""Bytes at the end of a program's output that are read."""
ENDING = 10.0
"""Seconds that a program has to end by itself."""
PORT_RELEASE = 5.0
"""Seconds that a program that is ending has to release its port."""
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


@dataclass
class Program:
    """A program that was started, and its log."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    began: int
    """The offset in the log at which this program's output begins."""
    known: int = field(init=False)
    """When the last old log was made that this program knows of; a newer one has its output."""
    has_old: bool = field(default=False, init=False)
    old_began: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.known = _change_time(old_log(self.log))

    @property
    def has_ended(self) -> bool:
        """Whether the program has ended."""
        return self.process.poll() is not None

    def output(self) -> str:
        """The program's output so far; only the end if it is long."""
        old = old_log(self.log)
        if (modified := _change_time(old)) != self.known:  # the log was rotated
            self.old_began, self.began, self.known = (0 if self.has_old else self.began), 0, modified
            self.has_old = True
        data = _tail(old, self.old_began) if self.has_old else b""
        return (data + _tail(self.log, self.began))[-OUTPUT_KEPT:].decode(errors="replace")

    def stop(self) -> None:
        """Ask the program to end, and after a while kill it, with all programs it has started."""
        if not self.has_ended:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(ENDING)
        self.kill()

    def kill(self) -> None:
        """Kill the program and all programs it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def _change_time(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


@dataclass(frozen=True)
class LogMark:
    """A place in a log of a program that somebody else started."""

    path: Path
    place: int

    @staticmethod
    def at_end_of(path: Path) -> LogMark:
        """The end of a log, as it is now."""
        return LogMark(path, path.stat().st_size if path.exists() else 0)

    def new_lines(self) -> list[str]:
        """What was written since; only the end if it is much, and nothing of a log that was rotated."""
        return _tail(self.path, self.place).decode(errors="replace").splitlines() if self.path.exists() else []

    def read_on(self) -> tuple[list[str], LogMark]:
        """The whole lines that were written since, and the place behind them; a log that was emptied begins anew."""
        try:
            with open(self.path, "rb") as file:
                start = self.place if self.place <= file.seek(0, os.SEEK_END) else 0
                file.seek(start)
                text = file.read()
        except OSError:
            return [], self
        whole = text[: text.rfind(b"\n") + 1]
        return whole.decode(errors="replace").splitlines(), LogMark(self.path, start + len(whole))


def _tail(path: Path, start: int) -> bytes:
    """The end of a file, from an offset on."""
    with open(path, "rb") as file:
        file.seek(max(start, file.seek(0, os.SEEK_END) - OUTPUT_KEPT))
        return file.read()


def start_program(
    name: str, command: Sequence[str], log: Path, environment: Mapping[str, str], folder: Path
) -> Program:
    """Start a program that ends when this process ends, however it ends, and whose files only its owner can read."""
    make_private(log.parent)
    began = log.stat().st_size if log.exists() else 0
    with open_private_log(log) as file:
        process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=dict(environment), cwd=folder,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None, start_new_session=True,
            umask=0o077,
        )  # fmt: skip
    return Program(name, process, log, began)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGTERM)


def wait_until_ready(
    program: Program,
    ready: Callable[[], bool],
    explain: Callable[[str], str],
    failed: str | None = None,
    seconds: float = STARTING,
) -> None:
    """Wait until a program is ready.

    Args:
        explain: Makes an error message from its output.
        failed: Output that means failure.
        seconds: How long to wait.

    Raises:
        FedloomError: The program ended, failed, or was not ready in time.
    """
    end = time.monotonic() + seconds
    while not ready():
        if program.has_ended or (failed is not None and failed in program.output()):
            time.sleep(0.1)  # the reason may follow
            output = program.output()
            program.stop()
            raise FedloomError(explain(output))
        if time.monotonic() > end:
            program.stop()
            raise FedloomError(f"{program.name} was not ready within {seconds:g} s: {explain(program.output())}")
        time.sleep(0.05)


def check_free(port: int, what: str, host: str = "127.0.0.1") -> None:
    """Raise an error if another program has a port; wait a moment, since one that was just killed may still hold it.

    Args:
        what: The setting that says which it is.
        host: The loopback address that it is for.
    """
    end = time.monotonic() + PORT_RELEASE
    while (error := _port_error(port, host)) is not None:
        if time.monotonic() > end:
            raise FedloomError(
                f"port {port} of this machine is not free ({error}): end the program that uses it, or change {what}."
            )
        time.sleep(0.1)


def _port_error(port: int, host: str) -> str | None:
    """Why a port cannot be used; None if it can."""
    with socket.socket(family_of(host)) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            return error.strerror
    return None


def is_listening(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a program of this machine accepts connections on a port of a loopback address."""
    with socket.socket(family_of(host)) as trial:
        trial.settimeout(1)
        return trial.connect_ex((host, port)) == 0


def family_of(host: str) -> socket.AddressFamily:
    """The family of sockets for an address."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def connection_problem(address: str) -> str:
    """Why an address cannot be reached; empty if it can."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except ValueError:
        return "that is not an address: write it as host:port"
    except socket.gaierror:
        return "no machine has that name"
    except TimeoutError:
        return "that machine does not answer: a firewall may block it"
    except OSError:
        return "the connection is refused: the server may not be running"
    return ""


def _start_time(process: int) -> str:
    """When a process was started, if the system says: numbers of processes are used again after a reboot."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


class PidFile:
    """Records which process uses a folder; a second one is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def process(self) -> int | None:
        """The number of the process that uses the folder; None if there is none."""
        try:
            number, began = read_regular(self.path).decode().split(" ")
            os.kill(int(number), 0)
        except (OSError, ValueError):
            return None
        return int(number) if began == _start_time(int(number)) else None

    def take(self, what: str) -> None:
        """Record this process as the user of the folder."""
        if self.process() is not None:
            raise FedloomError(f"{what} is already running (process {self.process()}): fedloom deploy stop ends it.")
        make_private(self.path.parent)
        self.path.write_text(f"{os.getpid()} {_start_time(os.getpid())}")

    def stop(self) -> bool:
        """End the recorded process and wait for it; whether there was one."""
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
        """Remove the record."""
        self.path.unlink(missing_ok=True)
