"""Engines: where jobs run. In this process, in one process per core, or on Ray."""

from __future__ import annotations

import os

from fedloom.core.errors import FedloomError
from fedloom.engines.inline import Inline
from fedloom.engines.processes import Processes
from fedloom.rounds.client_runtime import ClientRuntime
from fedloom.rounds.jobs import Engine

ENGINES = {
    "inline": "one process, one job after another: the default, and the easiest to debug (workers = 1)",
    "processes": "forked worker processes that share the data, one per core (workers > 1)",
    "ray": "workers of a Ray cluster (ray_address), or of a local Ray that lives as long as the run (engine = ray)",
}


PROCESSES_PER_CORE = 16
"""More processes than this are a mistake: one per core is enough."""


def check(name: str, address: str | None = None, workers: int = 1) -> None:
    """Refuse, before any work, an engine that cannot run here."""
    cores = os.cpu_count() or 1
    if name in ("auto", "processes") and workers > PROCESSES_PER_CORE * cores:
        raise FedloomError(
            f"workers={workers}: this machine has {cores} cores, and each worker is a process of its own: use at most "
            f"{PROCESSES_PER_CORE * cores}, best one per core."
        )
    if name == "ray":
        from fedloom.engines.ray_cluster import check_reachable

        check_reachable(address)


def start(runtime: ClientRuntime, workers: int, name: str = "auto", address: str | None = None) -> Engine:
    """The engine of a name; ``auto`` is inline for one worker and processes for more."""
    if name == "ray":
        from fedloom.engines.ray import Ray

        return Ray(runtime, workers, address)
    return Inline(runtime) if name == "inline" or (name == "auto" and workers == 1) else Processes(runtime, workers)
