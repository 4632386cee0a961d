"""Where cohorts run: in this process, or in one process per core."""

from __future__ import annotations

from fedloom.core.jobs import Engine, Shop
from fedloom.engine.inline import Inline
from fedloom.engine.processes import Processes

ENGINES = {"inline": Inline.__doc__ or "", "processes": Processes.__doc__ or ""}


def start(shop: Shop, workers: int) -> Engine:
    """The engine for a number of workers: inline for one, processes for more."""
    return Inline(shop) if workers == 1 else Processes(shop, workers)
