"""A user's own module and data: written with functions, entered as arrays, with ten clients in a round.

The same MLP 784-64-10 as an ``nn.Sequential``, as a module with functional relu and flatten, as one that cannot be
traced, and as a hand-written loop; one and two workers; and what 160 MB of data cost until the first round has ended,
in seconds and memory.

Rounds are compared by the best of many. Two workers are compared with one in two ways: wall time is what a user waits
for if two cores are free; CPU time, which a busy machine changes less, is that of the parent and the busier worker,
which she waits for at least.
"""

from __future__ import annotations

import argparse
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fedloom as fl
from measure import arguments, line, show

WIDTH, HIDDEN, CLASSES = 784, 64, 10
CLIENTS, SELECTED, BATCH, RATE = 100, 10, 32, 0.1
LOCAL = {"epochs": 1, "batch_size": BATCH, "lr": RATE}
SAMPLES, TRAINING = 600, 0.8
"""Samples per client, and the share of them that it trains on."""
WHOLE = 51_000
"""So many samples are 160 MB."""


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


def hand_rounds(x: Tensor, y: Tensor, rounds: int, note: Callable[[int], None] = lambda _: None) -> None:
    """FedAvg as a user writes it: one module, ``torch.optim.SGD``, a mean of state dicts. ``note`` hears of rounds."""
    model, (mean, std) = OwnModule(), (x.mean(0), x.std(0))
    parts = [part[: int(TRAINING * len(part))] for part in torch.arange(len(x)).chunk(CLIENTS)]
    shared = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for number in range(rounds):
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
        note(number)


def our_rounds(task: fl.Task, rounds: int, **settings: object) -> fl.History:
    """The same rounds as a user starts them."""
    return fl.run(task, rounds=rounds, selection={"number": SELECTED}, eval_every=0, local=LOCAL, **settings)


class RoundClock:
    """Notes for each round but the first the wall seconds, and the CPU seconds of the parent and the busier worker."""

    def __init__(self) -> None:
        self.rounds: list[tuple[float, float]] = []
        self._last: tuple[float, float, dict[int, float]] | None = None

    def __call__(self, _: object) -> None:
        workers = {child.pid: _cpu_of(child.pid) for child in multiprocessing.active_children() if child.pid}
        now = time.process_time(), time.perf_counter(), workers
        if self._last is not None:
            busier = max((cpu - self._last[2].get(pid, 0.0) for pid, cpu in workers.items()), default=0.0)
            self.rounds.append((now[0] - self._last[0] + busier, now[1] - self._last[1]))
        self._last = now


def _cpu_of(pid: int) -> float:
    """CPU seconds of another process so far: its clock has this number on Linux (``clock_getcpuclockid``)."""
    return time.clock_gettime((~pid << 3) | 2)


def best_rounds(contenders: dict[str, Callable[[RoundClock], object]], repeat: int) -> dict[str, tuple[float, float]]:
    """CPU and wall seconds of each contender's best round; contenders take turns."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for _ in range(repeat):
        for name, play in contenders.items():
            clock = RoundClock()
            play(clock)
            taken[name] += clock.rounds
    return {name: tuple(np.min(rounds, axis=0).tolist()) for name, rounds in taken.items()}


def compare_modules(data: fl.Federation, options: argparse.Namespace) -> None:
    """The same network, written in three ways, and the loop by hand."""
    rounds = 10 if options.quick else 20
    modules: dict[str, nn.Module] = {"nn.Sequential": sequential(), "own module": OwnModule()}
    if not options.quick:
        modules["own module, untraced"] = Branching()
    tasks = {name: fl.task_of(data, module) for name, module in modules.items()}
    contenders = {
        name: (lambda clock, task=task: our_rounds(task, rounds, observers=[clock])) for name, task in tasks.items()
    }
    if not options.quick:
        x, y = data.columns["x"], data.columns["y"]
        contenders["loop by hand"] = lambda clock: hand_rounds(x, y, rounds, clock)
    show("a round of 10 clients", best_rounds(contenders, options.repeat), options.json, {"own module": 0.95})


def compare_workers(data: fl.Federation, options: argparse.Namespace) -> None:
    """One and two workers, and whether they give the same bytes."""
    task, rounds, rows = fl.task_of(data, sequential()), 20 if options.quick else 30, {}

    def play(workers: int, clock: RoundClock) -> None:
        rows[workers] = our_rounds(task, rounds, workers=workers, observers=[clock]).row

    names = {workers: f"{workers} worker(s)" for workers in (1, 2)}
    best = best_rounds({name: partial(play, workers) for workers, name in names.items()}, options.repeat)
    assert torch.equal(rows[1], rows[2]), "the number of workers changed the result"
    show("the same, CPU of the busiest", best, options.json, {names[2]: 1.6})
    for workers, name in names.items():
        (cpu, wall), bar = best[name], 1.6 if workers > 1 else None
        ratio = best[names[1]][1] / wall
        line("the same, wall time", name, cpu, wall, ratio, options.json, bar, needs_cores=workers)


def start_alone(contender: str) -> None:
    """One round on 160 MB, in a process of its own: print CPU seconds, wall seconds and the peak memory in MiB."""
    torch.set_num_threads(1)
    x, y = arrays(WHOLE)
    cpu, wall = time.process_time(), time.perf_counter()
    if contender == "loop by hand":
        hand_rounds(torch.from_numpy(x), torch.from_numpy(y), 1)
    else:
        our_rounds(fl.task_of(fl.from_arrays(x, y, clients=CLIENTS), OwnModule()), 1)
    status = Path("/proc/self/status").read_text().splitlines()  # ru_maxrss would include the parent's memory
    peak = next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
    print(time.process_time() - cpu, time.perf_counter() - wall, peak)


def compare_starts(options: argparse.Namespace) -> None:
    """From the call until the first round has ended: seconds against one second, memory against the loop by hand."""
    found = {}
    for contender in ("loop by hand", "own module"):
        command = [sys.executable, __file__, "--start", contender]
        turns = 1 if options.quick else options.repeat
        done = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(turns)]
        found[contender] = min(tuple(float(number) for number in turn.stdout.split()) for turn in done)
    memory = found["loop by hand"][2]
    for contender, (cpu, wall, peak) in found.items():
        ours = contender != "loop by hand"
        line("160 MB, first round within 1 s", contender, cpu, wall, 1 / cpu, options.json, 1.0 if ours else None)
        more = {"peak_MiB": round(peak)}
        line("160 MB, memory", contender, cpu, wall, memory / peak, options.json, 1 / 1.3 if ours else None, **more)


def main() -> None:
    """Measure all cases."""
    if sys.argv[1:2] == ["--start"]:
        start_alone(sys.argv[2])
        return
    options = arguments("A user's own module and data.")
    torch.set_num_threads(1)
    data = fl.from_arrays(*arrays(CLIENTS * SAMPLES), clients=CLIENTS, global_share=0.0)
    compare_modules(data, options)
    compare_workers(data, options)
    compare_starts(options)


if __name__ == "__main__":
    main()
