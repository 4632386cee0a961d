"""Many clients: seconds per round, seconds to enter the data and memory, with 1,000, 100,000 and a million clients.

The data enter through ``fl.from_arrays``. Every size runs in a fresh process, because a process does not give memory
back; the sizes take turns, and the best of several turns counts. A round costs what its own 100 clients cost: it may
take 1.2x as long with 100,000 clients as with 1,000, and 1.5x with a million. What counts is the lower quartile of the
rounds, so that a busy machine matters little.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from measure import arguments, line

SAMPLES, FEATURES, CLASSES, PER_ROUND, ROUNDS, WARM_UP = 8, 32, 10, 100, 60, 5
SLOWER = {1_000: None, 100_000: 1.2, 1_000_000: 1.5}
"""Numbers of clients, and how much longer a round may take than with the first of them."""
QUICK_CLIENTS = 100_000
"""The most clients in the guard: entering a million takes longer than everything else."""
TURNS = 3
MEBIBYTE = 1 << 20


def measure(clients: int) -> dict[str, float]:
    """One run in this process: CPU and wall seconds per round, CPU seconds to enter, bytes of data and of memory."""
    import numpy as np
    import torch

    import fedloom as fl

    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    x = random.standard_normal((clients * SAMPLES, FEATURES), dtype=np.float32)
    y = random.integers(0, CLASSES, clients * SAMPLES)
    client = np.repeat(np.arange(clients), SAMPLES)
    began = time.process_time()
    task = fl.task_of(fl.from_arrays(x, y, client), "mlp", model_options={"hidden": 32}, normalise=False)
    entering = time.process_time() - began
    seconds: list[tuple[float, float]] = []
    last = [time.process_time(), time.perf_counter()]

    def note_time(_: object) -> None:
        now = time.process_time(), time.perf_counter()
        seconds.append((now[0] - last[0], now[1] - last[1]))
        last[:] = now

    local = fl.LocalWork(lr=0.05, batch_size=10)
    fl.run(task, rounds=ROUNDS, local=local, selection={"number": PER_ROUND}, eval_every=0, observers=[note_time])
    cpu, wall = (float(np.quantile([taken[kind] for taken in seconds[WARM_UP:]], 0.25)) for kind in (0, 1))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"cpu": cpu, "wall": wall, "entering": entering, "data": x.nbytes + y.nbytes, "peak": peak}


def best_of(sizes: Sequence[int], turns: int = TURNS) -> dict[int, dict[str, float]]:
    """The measurements of each number of clients in its fastest turn; each turn is a process of its own."""
    best: dict[int, dict[str, float]] = {}
    for _ in range(turns):
        for clients in sizes:
            command = [sys.executable, str(Path(__file__)), "--clients", str(clients)]
            measured = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            if clients not in best or measured["cpu"] < best[clients]["cpu"]:
                best[clients] = measured
    return best


def ratios(best: dict[int, dict[str, float]]) -> dict[int, float]:
    """How many times as long a round takes with each number of clients as with the smallest."""
    return {clients: measured["cpu"] / best[min(best)]["cpu"] for clients, measured in best.items()}


def main() -> None:
    """Compare the numbers of clients."""
    if len(sys.argv) == 3 and sys.argv[1] == "--clients":
        print(json.dumps(measure(int(sys.argv[2]))))
        return
    options = arguments("Many clients: seconds per round, seconds to enter, memory.")
    sizes = [clients for clients in SLOWER if clients <= QUICK_CLIENTS or not options.quick]
    best = best_of(sizes, min(options.repeat, TURNS))
    for clients, slower in ratios(best).items():
        measured, bar = best[clients], SLOWER[clients]
        line(
            "seconds per round",
            f"{clients:,} clients",
            measured["cpu"],
            measured["wall"],
            1 / slower,
            options.json,
            None if bar is None else 1 / bar,
            entering_seconds=round(measured["entering"], 1),
            peak_mib=round(measured["peak"] / MEBIBYTE),
            data_mib=round(measured["data"] / MEBIBYTE),
        )


if __name__ == "__main__":
    main()
