"""Engines: where jobs run. In this process, in one process per core, or on Ray."""

from __future__ import annotations

from fedloom.engines.inline import Inline
from fedloom.engines.processes import Processes
from fedloom.rounds.client_runtime import ClientRuntime
from fedloom.rounds.jobs import Engine

ENGINES = {
    "inline": "one process, one job after another: the default, and the easiest to debug (workers = 1)",
    "processes": "forked worker processes that share the data, one per core (workers > 1)",
    "ray": "workers of a Ray cluster (ray_address), or of a local Ray that lives as long as the run (engine = ray)",
}


def check(name: str, address: str | None = None) -> None:
    """Refuse, before any work, an engine that cannot run here."""
    if name == "ray":
        from fedloom.engines.ray_cluster import check_reachable

        check_reachable(address)


def start(runtime: ClientRuntime, workers: int, name: str = "auto", address: str | None = None) -> Engine:
    """The engine of a name; ``auto`` is inline for one worker and processes for more."""
    if name == "ray":
        from fedloom.engines.ray import Ray

        return Ray(runtime, workers, address)
    return Inline(runtime) if name == "inline" or (name == "auto" and workers == 1) else Processes(runtime, workers)
