"""Worker processes against one process: the same run of a CNN, wall time.

The results are the same bytes; only the time differs. Two workers on two cores are asked for 1.7x.
"""

from __future__ import annotations

import resource
import time

import torch

from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.models import build
from fedloom.runs.run import run_on_task
from local import BATCH, RATE, federation
from measure import arguments, line

WORKERS = 2


def main() -> None:
    """Measure one and two workers in turn."""
    options = arguments("One process against worker processes.")
    torch.set_num_threads(1)
    task = Task("bench", federation(40, 160, (1, 28, 28), 10), build("lenet-small", (1, 28, 28), 10, 0))
    best: dict[int, tuple[float, float]] = {}
    rows = {}
    for _ in range(max(2, options.repeat // 2)):
        for workers in (1, WORKERS):
            wall, cpu = time.perf_counter(), _cpu()
            history = run_on_task(
                task,
                rounds=4,
                workers=workers,
                local=LocalWork(lr=RATE, batch_size=BATCH),
                selection={"number": 20},
                eval_every=0,
            )
            took = time.perf_counter() - wall, _cpu() - cpu
            best[workers] = min(best.get(workers, took), took)
            rows[workers] = history.row
    assert torch.equal(rows[1], rows[WORKERS]), "the number of workers changed the result"
    for workers, (wall, cpu) in best.items():
        bar = 1.7 if workers > 1 else None
        ratio, name = best[1][0] / wall, f"{workers} worker(s)"
        line("lenet-small run, wall time", name, cpu, wall, ratio, options.json, bar, needs_cores=workers)


def _cpu() -> float:
    """CPU seconds of this process and of its finished children."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


if __name__ == "__main__":
    main()
