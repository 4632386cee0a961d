"""A user's own module and data: written with functions, entered as arrays, with ten clients in a round.

The same MLP 784-64-10 as an ``nn.Sequential``, as a module with functional relu and flatten, as one that cannot be
traced, and as a hand-written loop; one and two workers; and what 160 MB of data cost until the first round has ended,
in seconds and memory. Workers are compared by CPU time, which a busy machine changes less than wall time: what two free
cores would wait for is the parent and the busier worker.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import subprocess
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fedloom as fl
from measure import arguments, best_times, line, show

WIDTH, HIDDEN, CLASSES = 784, 64, 10
CLIENTS, SELECTED, BATCH, RATE = 100, 10, 32, 0.1
LOCAL = {"epochs": 1, "batch_size": BATCH, "lr": RATE}
SAMPLES = 600
"""Samples per client; 51,000 samples in all are the 160 MB."""
WHOLE = 51_000


class OwnModule(nn.Module):
    """The module of a user who does not write a Sequential."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc1, self.fc2 = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class Branching(OwnModule):
    """The same with a branch on shapes, which cannot be traced."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if x.dim() > 1 else x


def sequential() -> nn.Module:
    """The same layers as a chain."""
    own = OwnModule()
    return nn.Sequential(nn.Flatten(), own.fc1, nn.ReLU(), own.fc2)


def arrays(samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Random inputs and labels, made piece by piece so that making them leaves no high-water mark."""
    numbers = np.random.default_rng(0)
    x = np.empty((samples, WIDTH), dtype=np.float32)
    for piece in np.array_split(x, max(1, samples // 1000)):
        piece[:] = numbers.standard_normal(piece.shape, dtype=np.float32)
    return x, numbers.integers(0, CLASSES, samples)


def hand_rounds(x: Tensor, y: Tensor, rounds: int) -> None:
    """FedAvg as a user writes it: one module, ``torch.optim.SGD``, a mean of state dicts."""
    model, (mean, std) = OwnModule(), (x.mean(0), x.std(0))
    parts = torch.arange(len(x)).chunk(CLIENTS)
    shared = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for _ in range(rounds):
        total = {name: torch.zeros_like(tensor) for name, tensor in shared.items()}
        for client in torch.randperm(CLIENTS)[:SELECTED].tolist():
            model.load_state_dict(shared)
            optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
            own = parts[client]
            for batch in own[torch.randperm(len(own))].split(BATCH):
                optimizer.zero_grad()
                F.cross_entropy(model((x[batch] - mean) / std), y[batch]).backward()
                optimizer.step()
            for name, tensor in model.state_dict().items():
                total[name] += tensor / SELECTED
        shared = total


def our_rounds(task: fl.Task, rounds: int, **settings: object) -> fl.History:
    """The same rounds as a user starts them."""
    return fl.run(task, rounds=rounds, selection={"number": SELECTED}, eval_every=0, local=LOCAL, **settings)


def compare_modules(data: fl.Federation, options: object) -> None:
    """The same network, written in three ways, and the loop by hand."""
    rounds = 5 if options.quick else 20
    tasks = {
        "nn.Sequential": fl.task_of(data, sequential()),
        "own module": fl.task_of(data, OwnModule()),
        "own module, untraced": fl.task_of(data, Branching()),
    }
    x, y = data.columns["x"], data.columns["y"]
    contenders = {name: (lambda task=task: our_rounds(task, rounds)) for name, task in tasks.items()}
    contenders["loop by hand"] = lambda: hand_rounds(x, y, rounds)
    show("MLP 784-64-10, 10 clients", best_times(contenders, options.repeat), options.json, {"own module": 0.95})


def compare_workers(data: fl.Federation, options: object) -> None:
    """One and two workers, by the CPU time of the parent and of the busier worker."""
    task, rounds = fl.task_of(data, sequential()), 5 if options.quick else 20
    best: dict[int, tuple[float, float]] = {}
    rows = {}
    for _ in range(options.repeat):
        for workers in (1, 2):
            busier = [0.0]

            def watch(_: object, busier: list[float] = busier) -> None:
                busier.append(max((_cpu_of(child.pid) for child in multiprocessing.active_children()), default=0.0))

            cpu, wall = time.process_time(), time.perf_counter()
            rows[workers] = our_rounds(task, rounds, workers=workers, observers=[watch]).row
            took = time.process_time() - cpu + max(busier), time.perf_counter() - wall
            best[workers] = min(best.get(workers, took), took)
    assert torch.equal(rows[1], rows[2]), "the number of workers changed the result"
    for workers, (cpu, wall) in best.items():
        bar = 1.6 if workers > 1 else None
        line("the same, workers", f"{workers} worker(s)", cpu, wall, best[1][0] / cpu, options.json, bar)


def _cpu_of(pid: int | None) -> float:
    """CPU seconds of a process so far."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start_alone(contender: str) -> None:
    """One round on 160 MB, in a process of its own: print CPU seconds, wall seconds and the peak memory in MiB."""
    torch.set_num_threads(1)
    x, y = arrays(WHOLE)
    small_x, small_y = arrays(2 * CLIENTS)
    began = [0.0, 0.0]
    for data_x, data_y in ((small_x, small_y), (x, y)):  # the first time imports what is needed
        began = [time.process_time(), time.perf_counter()]
        if contender == "loop by hand":
            hand_rounds(torch.from_numpy(data_x), torch.from_numpy(data_y), 1)
        else:
            our_rounds(fl.task_of(fl.from_arrays(data_x, data_y, clients=CLIENTS), OwnModule()), 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(time.process_time() - began[0], time.perf_counter() - began[1], peak)


def compare_starts(options: object) -> None:
    """Until the first round has ended: seconds against one second, and memory against the loop by hand."""
    found = {}
    for contender in ("loop by hand", "own module"):
        command = [sys.executable, __file__, "--start", contender]
        done = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(options.repeat)]
        found[contender] = min(tuple(float(number) for number in turn.stdout.split()) for turn in done)
    memory = found["loop by hand"][2]
    for contender, (cpu, wall, peak) in found.items():
        ours = contender != "loop by hand"
        line("160 MB, to the first round", contender, cpu, wall, 1 / cpu, options.json, 1.0 if ours else None)
        more = {"peak_MiB": round(peak)}
        line("160 MB, memory", contender, cpu, wall, memory / peak, options.json, 1 / 1.3 if ours else None, **more)


def main() -> None:
    """Measure all cases."""
    if sys.argv[1:2] == ["--start"]:
        start_alone(sys.argv[2])
        return
    options = arguments("A user's own module and data.")
    torch.set_num_threads(1)
    data = fl.from_arrays(*arrays(CLIENTS * (200 if options.quick else SAMPLES)), clients=CLIENTS, global_share=0.0)
    compare_modules(data, options)
    compare_workers(data, options)
    compare_starts(options)


if __name__ == "__main__":
    main()
