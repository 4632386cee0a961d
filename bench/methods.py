"""Every method against FedAvg: CPU time per gradient step, whole rounds, in both executions.

A method whose local work is SGD must run at the speed of FedAvg within 15 % (a ratio of at least 0.87). MOON and
FedProto have losses of their own, and FedSeq trains fewer clients at once: they have no bar. A step is a gradient step
as the run counts it: methods that take several gradients per batch count each of them. Times are seconds per million
steps.
"""

from __future__ import annotations

import time

import torch

from fedloom.core.task import Task
from fedloom.models import build
from fedloom.runs.run import run_on_task
from local import BATCH, RATE, federation
from measure import arguments, line

BAR = 1 / 1.15
METHODS = (
    *("fedavg", "fedprox", "scaffold", "feddyn", "fedper", "lgfedavg", "fedrep", "fedbabu"),
    *("fedhybridavglg:threshold=0", "fedhybridavglgdual:threshold=0", "perfedavg", "pfedme", "fedu", "ditto"),
    *("moon", "fedproto", "cfl", "fesem", "ifca", "fedseq:grouping=random,max_clients=4"),
)
WITHOUT_BAR = ("fedavg", "moon", "fedproto", "fedseq:grouping=random,max_clients=4")
QUICK_CASES, QUICK_CLIENTS = ("mlp 784-64-10",), 40
CASES = {
    "mlp 64-32-10": ((64,), "mlp", {"hidden": [32]}, 64, 160, "vectorised"),
    "mlp 784-64-10": ((784,), "mlp", {"hidden": [64]}, 64, 160, "vectorised"),
    "mlp 784-64-10, loop": ((784,), "mlp", {"hidden": [64]}, 8, 160, "loop"),
    "lenet-5, loop": ((1, 28, 28), "lenet-small", {}, 8, 96, "loop"),
}


def main() -> None:
    """Measure every method in turn."""
    options = arguments("Methods against FedAvg, per gradient step.")
    torch.set_num_threads(1)
    for case, (shape, model, settings, clients, samples, execution) in CASES.items():
        if options.only not in case or (options.quick and case not in QUICK_CASES):
            continue
        clients = min(clients, QUICK_CLIENTS) if options.quick else clients
        task = Task("bench", federation(clients, samples, shape, 10), build(model, shape, 10, 0, **settings))
        methods = [name for name in METHODS if not options.quick or name == "fedavg" or name not in WITHOUT_BAR]
        best = {name: (float("inf"), float("inf")) for name in methods}
        for _ in range(max(2, options.repeat // 2)):
            for name in methods:
                best[name] = min(best[name], per_step(task, name, execution))
        for name, (cpu, wall) in best.items():
            bar = None if name in WITHOUT_BAR else BAR
            line(case, name.partition(":")[0], cpu * 1e6, wall * 1e6, best["fedavg"][0] / cpu, options.json, bar)


def per_step(task: Task, method: str, execution: str) -> tuple[float, float]:
    """CPU and wall seconds per gradient step of two rounds."""
    local = {"epochs": 5, "lr": RATE, "batch_size": BATCH}
    cpu, wall = time.process_time(), time.perf_counter()
    history = run_on_task(task, method, rounds=2, local=local, execution=execution, eval_every=0)
    steps = history.total("steps")
    return (time.process_time() - cpu) / steps, (time.perf_counter() - wall) / steps


if __name__ == "__main__":
    main()
