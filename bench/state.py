"""Ten thousand clients, each with a personal head of a LeNet: where the state lives, and what it costs.

FedPer keeps a head of 1,930 numbers per client (LeNet with 64 filters, 10 classes). The matrix is mapped from an
unlinked file, so it is the system's to page out: it counts as file-backed memory, not as the process's own.
"""

from __future__ import annotations

import json
import time

import torch

import fedloom as fl
from fedloom.conformance.run_method import run_method
from measure import arguments

CLIENTS, PER_ROUND, SAMPLES = 10_000, 100, 2


def main() -> None:
    """Let every client take part once, then look at the store."""
    options = arguments("Ten thousand personal heads.")
    torch.set_num_threads(1)
    x = torch.randint(0, 255, (CLIENTS * SAMPLES, 3, 32, 32), dtype=torch.uint8)
    y = torch.randint(0, 10, (len(x),))
    parts = fl.Ragged(torch.arange(len(x)), torch.arange(0, len(x) + 1, SAMPLES))
    nobody = fl.Ragged.empty(CLIENTS)
    task = fl.task_of(fl.Federation({"x": x, "y": y}, parts, nobody, nobody, 10), "lenet", normalise=True)
    before, began = own_memory(), time.process_time()
    turns = [list(range(first, first + PER_ROUND)) for first in range(0, CLIENTS, PER_ROUND)]
    local = {"steps": 1, "batch_size": SAMPLES, "lr": 0.01}
    run = run_method(task, fl.FedPer(), len(turns), local, selection=lambda pool: fl.Choice(turns[pool.round - 1]))
    heads = run.state.client_states.rows["head"]
    found = {
        "clients_with_a_head": int(run.state.client_states.has["head"].sum()),
        "store_MiB": heads.nbytes / 2**20,
        "own_memory_grew_MiB": (own_memory() - before) / 2**20,
        "cpu_seconds_per_round": (time.process_time() - began) / len(turns),
    }
    if options.json:
        print(json.dumps({"case": "10,000 LeNet heads", **found}))
    else:
        print("  ".join(f"{name} {value:.4g}" for name, value in found.items()))


def own_memory() -> int:
    """Anonymous resident memory of this process, in bytes."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


if __name__ == "__main__":
    main()
