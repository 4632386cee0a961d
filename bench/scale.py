"""A hundred thousand clients: memory against the data's own size, and seconds per round against a thousand clients.

Each size runs in a fresh process, because a process does not give memory back. Asked for: resident memory within
1.3x of the data plus 300 MiB, and rounds that take no more than 1.2x of those with a thousand clients.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from measure import arguments, line

SAMPLES, FEATURES, CLASSES, PER_ROUND, ROUNDS = 20, 64, 10, 100, 60


def measure(clients: int) -> dict[str, float]:
    """One run in this process."""
    import numpy as np
    import torch

    import fedloom as fl
    from fedloom.core.local_work import LocalWork

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(clients * SAMPLES, FEATURES, generator=generator)
    y = torch.randint(0, CLASSES, (clients * SAMPLES,), generator=generator)
    parts = fl.Ragged(torch.arange(len(x)), torch.arange(0, len(x) + 1, SAMPLES))
    federation = fl.Federation({"x": x, "y": y}, parts, fl.Ragged.empty(clients), fl.Ragged.empty(clients), CLASSES)
    task = fl.task_of(federation, "mlp", model_options={"hidden": 32}, normalise=False)
    seconds: list[tuple[float, float]] = []
    last = [time.process_time(), time.perf_counter()]

    def clock(_: object) -> None:
        now = time.process_time(), time.perf_counter()
        seconds.append((now[0] - last[0], now[1] - last[1]))
        last[:] = now

    local = LocalWork(lr=0.05, batch_size=10)
    fl.run(task, rounds=ROUNDS, local=local, selection={"number": PER_ROUND}, eval_every=0, observers=[clock])
    data = x.nbytes + y.nbytes
    cpu, wall = (float(np.median([s[k] for s in seconds[5:]])) for k in (0, 1))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"cpu": cpu, "wall": wall, "data": data, "peak": peak}


def main() -> None:
    """Compare the sizes, each in a process of its own, taking turns."""
    if len(sys.argv) == 3 and sys.argv[1] == "--clients":
        print(json.dumps(measure(int(sys.argv[2]))))
        return
    options = arguments("Many clients: memory and seconds per round.")
    best: dict[int, dict[str, float]] = {}
    for _ in range(3):
        for clients in (1_000, 100_000):
            words = [sys.executable, str(Path(__file__)), "--clients", str(clients)]
            found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
            if clients not in best or found["cpu"] < best[clients]["cpu"]:
                best[clients] = found
    mib = 1 << 20
    for clients, found in best.items():
        slower = found["cpu"] / best[1_000]["cpu"]
        allowed = 1.3 * found["data"] / mib + 300
        line(
            "seconds per round",
            f"{clients:,} clients",
            found["cpu"],
            found["wall"],
            1 / slower,
            options.json,
            1 / 1.2 if clients > 1_000 else None,
            peak_mib=round(found["peak"] / mib),
            allowed_mib=round(allowed),
            data_mib=round(found["data"] / mib),
        )


if __name__ == "__main__":
    main()
