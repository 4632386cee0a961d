"""Runs for tests of engines: small tasks, methods that misbehave, and what a run leaves behind."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message
from fedloom.core.task import Task
from support.synthetic import federation, mlp

SIZES = [33, 9, 50, 20, 14, 28, 41]
WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}
FEDLOOM = str(Path(sys.executable).parent / "fedloom")


def seven_clients() -> Task:
    return Task("t", federation(SIZES), mlp())


def result_files(folder: Path) -> dict[str, bytes]:
    """All that a finished run leaves and no clock decides."""
    files = [*sorted(folder.glob("checkpoints/*.safetensors")), folder / "metrics.jsonl", folder / "clients.json"]
    return {path.name: path.read_bytes() for path in files}


def run(folder: Path, method, task: Task | None = None, **settings) -> dict[str, bytes]:
    fl.run(task or seven_clients(), method, out=folder, **{"rounds": 3, "seed": 3, "local": WORK, **settings})
    return result_files(folder)


def is_alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@dataclass(frozen=True)
class Mortal(fl.FedAvg):
    """Its process dies at one client, as often as the log does not hold enough lines yet."""

    log: str = ""
    client: int = 2
    deaths: int = 1

    def client_update(self, cohort: fl.Cohort, message: Message) -> fl.Reply:
        if self.client in cohort.ids:
            with open(self.log, "a+") as file:
                file.seek(0)
                died = len(file.readlines())
                if died < self.deaths:
                    file.write("died\n")
                    file.flush()
                    os.kill(os.getpid(), signal.SIGKILL)
        return super().client_update(cohort, message)


@dataclass(frozen=True)
class Faulty(fl.FedAvg):
    """A method with a mistake."""

    def client_update(self, cohort: fl.Cohort, message: Message) -> fl.Reply:
        raise ZeroDivisionError("of all things")


@dataclass(frozen=True)
class Refusing(fl.FedAvg):
    """A method that cannot do what it is asked."""

    def client_update(self, cohort: fl.Cohort, message: Message) -> fl.Reply:
        raise FedloomError("clients=7: this method wants eight.")
