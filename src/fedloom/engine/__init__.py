"""Where cohorts run: in this process, or in one process per core."""

from __future__ import annotations

from fedloom.core.jobs import Engine, Shop
from fedloom.engine.inline import Inline
from fedloom.engine.processes import Processes

ENGINES = {
    "inline": "one process, one job after another: the default, and the one a debugger likes (workers = 1)",
    "processes": "forked worker processes that share the data, one per core (workers > 1)",
}


def start(shop: Shop, workers: int) -> Engine:
    """The engine for a number of workers: inline for one, processes for more."""
    return Inline(shop) if workers == 1 else Processes(shop, workers)
