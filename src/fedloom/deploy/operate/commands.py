"""``fedloom deploy run``, ``status`` and ``stop``: what the operator does with a deployment that stands.

A run is submitted to the SuperLink, which starts its server half; here its folder is followed, so that it looks as a
simulation does. When the server half dies, or the SuperLink with it, the run is submitted again and goes on from its
last round.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.deploy import flower
from fedloom.deploy.operate.programs import listening
from fedloom.deploy.operate.supervise import control, link_port, pid_file
from fedloom.deploy.settings import OPENED, READY, load_server, load_site, role_of

RUN, SERVING, OUTCOME, STATUS, CROSS = "run", "serving.json", "outcome.json", "status.json", "cross_site.json"
BEGINNING = 120.0
"""Seconds that the server half may take until it is at work."""
AGAIN = 5
"""How often a run whose server half dies is submitted again."""

SAID = {OPENED: "its data are read; not connected yet", READY: "connected; nothing was asked yet"}
"""What a site's process says to those who wait for it, in words."""

Observer = Callable[[dict[str, Any]], None]
Say = Callable[[str], None]


def run(folder: Path, say: Say, observe: Observer) -> Path:
    """Play a deployment's run to its end, from wherever it stands; the run's folder."""
    flower.check_installed()
    settings, run_folder = load_server(folder), folder / RUN
    records = _records(run_folder / "metrics.jsonl")
    tries, reached = 0, -1
    while tries < AGAIN:
        _wait_for_server(folder)
        with _alone(folder):
            if not _at_work(run_folder):
                (run_folder / OUTCOME).unlink(missing_ok=True)
                (run_folder / SERVING).unlink(missing_ok=True)
                _submit(folder)
                _begun(run_folder)
        outcome = _followed(run_folder, records, say, observe)
        if outcome is None:
            done = _rounds(run_folder)
            tries, reached = (1 if done > reached else tries + 1), done  # deaths count while no round ends between them
            say("The server half of the run ended unexpectedly: it goes on from its last round.")
            continue
        if "error" in outcome:
            raise FedloomError(outcome["error"])
        return run_folder
    raise FedloomError(
        f"the server half of the run ended unexpectedly {AGAIN} times: see {folder / 'logs' / 'superlink.log'}; "
        f"{len(settings.sites)} sites were expected."
    )


def _wait_for_server(folder: Path) -> None:
    port, end = link_port(load_server(folder)), time.monotonic() + BEGINNING
    while not listening(port):
        if pid_file(folder).process() is None:
            raise FedloomError(f"the server is not running: start it with  fedloom deploy server {folder}")
        if time.monotonic() > end:
            raise FedloomError(f"the server does not answer on port {port}: see {folder / 'logs' / 'superlink.log'}.")
        time.sleep(0.1)


def _submit(folder: Path) -> None:
    home = folder / "flower"
    (folder / RUN).mkdir(exist_ok=True)
    command = flower.run_command(flower.write_app(home, folder))
    try:
        done = subprocess.run(  # noqa: S603
            command, env=flower.environment(home), capture_output=True, text=True, timeout=BEGINNING, check=False
        )
    except subprocess.TimeoutExpired:
        raise FedloomError(f"Flower did not take the run within {BEGINNING:g} s: see {folder / 'logs'}.") from None
    number = flower.submitted(done.stdout)
    if number is None:
        said = " ".join((done.stdout + done.stderr).split())[-300:]
        raise FedloomError(f"Flower did not take the run: {said}")
    (home / "run").write_text(number)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two that watch a run do not both submit it when its server half has died."""
    with open(folder / "flower" / "submitting", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _begun(run_folder: Path) -> None:
    end = time.monotonic() + BEGINNING
    while not (run_folder / SERVING).exists() and time.monotonic() < end:
        time.sleep(0.05)


def _at_work(run_folder: Path) -> bool:
    """Whether a server half is at work on the run and has not ended."""
    process = read_json(run_folder / SERVING).get("process")
    return process is not None and not (run_folder / OUTCOME).exists() and _alive(int(process))


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
        return b"flwr-serverapp" in Path(f"/proc/{process}/cmdline").read_bytes()
    except ProcessLookupError:
        return False
    except OSError:
        return True


def _followed(run_folder: Path, records: Iterator[dict[str, Any]], say: Say, observe: Observer) -> Any:
    """Show a run's rounds as they end; how it ended, or None when its server half died."""
    said, begun = "", time.monotonic()
    while True:
        for record in records:
            observe(record)
        waiting = read_json(run_folder / STATUS).get("waiting", "")
        if waiting and waiting != said:
            said = waiting
            say(f"Waiting: {waiting}.")
        outcome = read_json(run_folder / OUTCOME)
        if outcome:
            for record in records:
                observe(record)
            return outcome
        if (run_folder / SERVING).exists():
            if not _at_work(run_folder) and not (run_folder / OUTCOME).exists():
                return None
        elif time.monotonic() - begun > BEGINNING:
            return None
        time.sleep(0.1)


def _rounds(run_folder: Path) -> int:
    """The last round that is noted."""
    return max((record["round"] for record in _Tail(run_folder / "metrics.jsonl")), default=-1)


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a run's rounds as they are written, each once; exhausted for now when there is no new one."""
    return iter(_Tail(path))


class _Tail:
    """New whole lines of a file each time it is gone through; a round that is played again counts again."""

    def __init__(self, path: Path) -> None:
        self.path, self.place = path, 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        try:
            with open(self.path, "rb") as file:
                if file.seek(0, os.SEEK_END) < self.place:  # cut back to the last checkpoint
                    self.place = 0
                file.seek(self.place)
                line = file.readline()
        except OSError:
            raise StopIteration from None
        if not line.endswith(b"\n"):
            raise StopIteration
        self.place += len(line)
        record: dict[str, Any] = json.loads(line)
        return record if "round" in record else next(self)


def read_json(path: Path) -> dict[str, Any]:
    """What a small file says; nothing where it is not there."""
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found


def status(folder: Path) -> dict[str, Any]:
    """How a participant stands: its process, and at the server the sites and the run."""
    process = pid_file(folder).process()
    if role_of(folder) == "site":
        settings = load_site(folder)
        log_file = folder / "logs" / "site.log"
        last = log_file.read_text(errors="replace").splitlines()[-1:] if log_file.exists() else []
        last = [SAID.get(line, line) for line in last]
        return {"site": settings.name, "running": process, "last": last, "model": (folder / "model").exists()}
    server = load_server(folder)
    names = server.everyone
    keys = {flower.key_of(folder / "keys" / f"{name}.pub"): name for name in names}
    online: list[str] = []
    if process is not None:
        try:
            online = [keys[node.key] for node in control(folder).nodes() if node.online and node.key in keys]
        except flower.unreachable():
            process = None
    records = list(_Tail(folder / RUN / "metrics.jsonl"))
    return {
        "running": process,
        "sites": {name: name in online for name in names},
        "at_work": _at_work(folder / RUN),
        "waiting": read_json(folder / RUN / STATUS).get("waiting", ""),
        "round": records[-1]["round"] if records else None,
        "metrics": records[-1]["metrics"] if records else {},
        "excluded": [{"round": record["round"], **one} for record in records for one in record.get("excluded", ())],
        "outcome": read_json(folder / RUN / OUTCOME),
    }


def stop(folder: Path) -> bool:
    """End what runs in a participant's folder, at the server its run too; whether there was anything."""
    number = folder / "flower" / "run"
    if role_of(folder) == "server" and pid_file(folder).process() is not None and number.exists():
        with contextlib.suppress(*flower.unreachable()):  # the run may be over, or the SuperLink
            control(folder).stop(number.read_text())
        number.unlink(missing_ok=True)
    return pid_file(folder).stop()
