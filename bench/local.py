"""Local training against a careful bare-PyTorch loop that does the same work.

The bare loop reuses one module, has no DataLoader, shuffles with one gather per epoch and steps with torch.optim.SGD.
Fedloom does the same through ``Cohort.train``, for all clients of a round: five local epochs of ten batches for the
small models, one epoch for the others; shuffling and gathering batches count on both sides. Further cases: rounds
whose clients do nothing, and what a whole run adds to the training itself.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedloom.core.cohort import Cohort, RunSetting
from fedloom.core.local_work import OPTIMIZERS, LocalWork
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from fedloom.models import build
from fedloom.runs.run import run_on_task
from fedloom.training.execution import Execution, cohorts, decide
from fedloom.training.local_trainer import LocalTrainer
from measure import Contenders, arguments, best_times, line, show

BATCH = 32
RATE = 0.01


def federation(clients: int, samples: int, shape: tuple[int, ...], classes: int, tokens: int = 0) -> Federation:
    """Random data: speed does not depend on what they say."""
    total = clients * samples
    generator = torch.Generator().manual_seed(0)
    if tokens:
        x = torch.randint(0, tokens, (total, *shape), generator=generator)
    else:
        x = torch.randn(total, *shape, generator=generator)
    y = torch.randint(0, classes, (total,), generator=generator)
    parts = Ragged.of(np.split(np.arange(total), clients))
    return Federation({"x": x, "y": y}, parts, parts, Ragged.empty(clients), classes)


def bare(task: Task, epochs: int) -> Callable[[], object]:
    """A bare-PyTorch loop over clients."""
    model, start = task.model, {k: v.clone() for k, v in task.model.state_dict().items()}
    x, y = task.federation.columns["x"], task.federation.columns["y"]
    lists = [task.federation.train[client] for client in range(task.federation.clients)]

    def work() -> None:
        for own in lists:
            model.load_state_dict(start)
            model.train()
            optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
            for _ in range(epochs):
                order = own[torch.randperm(len(own))]
                for inputs, targets in zip(x[order].split(BATCH), y[order].split(BATCH), strict=True):
                    optimizer.zero_grad()
                    F.cross_entropy(model(inputs), targets).backward()
                    optimizer.step()

    return work


def ours(task: Task, execution: str, epochs: int, optimizer: str = "sgd") -> Callable[[], object]:
    """The same through Fedloom's cohorts."""
    chosen = decide(task, execution, LocalWork(batch_size=BATCH))
    trainer = LocalTrainer(task, chosen.name)
    setting = RunSetting(LocalWork(lr=RATE, batch_size=BATCH, epochs=epochs, optimizer=optimizer), 0, 1)
    row = task.initial_row()
    split = cohorts(list(range(task.federation.clients)), task.federation.train.sizes, chosen)

    def work() -> list[Tensor]:
        made = [Cohort(ids, trainer, setting, 1) for ids in split]
        return [cohort.train(cohort.spread(row)) for cohort in made]

    return work


def mlp(*sizes: int) -> nn.Module:
    """A multi-layer perceptron by its layer sizes."""
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


CASES: dict[str, tuple[Callable[[], Task], dict[str, float]]] = {
    "mlp 64-32-10, 100 clients": (
        lambda: Task("bench", federation(100, 320, (64,), 10), mlp(64, 32, 10)),
        {"auto": 10.0, "compiled": 30.0},
    ),
    "mlp 784-64-10, 50 clients": (
        lambda: Task("bench", federation(50, 320, (784,), 10), mlp(784, 64, 10)),
        {"auto": 2.2, "compiled": 3.5},
    ),
    "mlp 784-200-10, 20 clients": (
        lambda: Task("bench", federation(20, 320, (784,), 10), mlp(784, 200, 10)),
        {"auto": 1.15},
    ),
    "lenet-small 28x28, 4 clients": (
        lambda: Task("bench", federation(4, 320, (1, 28, 28), 10), build("lenet-small", (1, 28, 28), 10, 0)),
        {"auto": 1.1},
    ),
    "lenet 32x32x3, 2 clients": (
        lambda: Task("bench", federation(2, 160, (3, 32, 32), 10), build("lenet", (3, 32, 32), 10, 0)),
        {"auto": 0.95},
    ),
    "cnn 32x32x3, 1 client": (
        lambda: Task("bench", federation(1, 96, (3, 32, 32), 10), build("cnn", (3, 32, 32), 10, 0)),
        {"auto": 0.95},
    ),
    "char-lstm, 2 clients": (
        lambda: Task("bench", federation(2, 160, (80,), 80, tokens=80), build("char-lstm", (80,), 80, 0)),
        {"auto": 0.95},
    ),
}


OPTIMIZER_BARS = {"mlp 64-32-10, 100 clients": {"adamw": 0.8}}
"""The speed of local optimisers beside plain SGD, whose steps of chains store no gradient and no state."""


def optimizers(case: str, task: Task, epochs: int, repeat: int, as_json: bool) -> None:
    """Local optimisers beside plain SGD, in the execution that is chosen."""
    contenders = {name: ours(task, "auto", epochs, name) for name in OPTIMIZERS}
    show(f"{case}, optimisers", best_times(contenders, repeat), as_json, OPTIMIZER_BARS.get(case))


def idle(repeat: int, as_json: bool) -> None:
    """Rounds whose clients do nothing: selection, messages, aggregation and bookkeeping only."""
    task = Task("bench", federation(1000, 20, (64,), 10), mlp(64, 32, 10))
    rounds, number = 20, 100
    settings = {"local": LocalWork(steps=0), "selection": {"number": number}, "eval_every": 0}
    best = best_times({"idle": lambda: run_on_task(task, rounds=rounds, **settings)}, repeat)
    cpu, wall = best["idle"]
    rate = rounds * number / cpu
    line("idle clients, updates per second", "inline", cpu, wall, rate, as_json, 3000.0)


def overhead(repeat: int, as_json: bool) -> None:
    """What a run adds to the training of a CNN's clients (selection, aggregation, bookkeeping, logging)."""
    task = Task("bench", federation(20, 160, (1, 28, 28), 10), build("lenet-small", (1, 28, 28), 10, 0))
    spent = {"training": 0.0}
    train = LocalTrainer.train

    def timed(self: LocalTrainer, request: object) -> Tensor:
        began = time.process_time()
        rows = train(self, request)  # type: ignore[arg-type]
        spent["training"] += time.process_time() - began
        return rows

    best = (float("inf"), 0.0, 0.0)
    LocalTrainer.train = timed  # type: ignore[method-assign]
    try:
        for _ in range(repeat):
            spent["training"], cpu, wall = 0.0, time.process_time(), time.perf_counter()
            run_on_task(
                task, rounds=6, local=LocalWork(lr=RATE, batch_size=BATCH), selection={"number": 10}, eval_every=0
            )
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            best = min(best, (cpu / spent["training"], cpu, wall))
    finally:
        LocalTrainer.train = train  # type: ignore[method-assign]
    share = best[0] - 1
    line(
        "whole run beside its training",
        "inline",
        best[1],
        best[2],
        1 / best[0],
        as_json,
        1 / 1.05,
        overhead=f"{share:.1%}",
    )


def main() -> None:
    """Measure all cases."""
    options = arguments("Local training against bare PyTorch.")
    torch.set_num_threads(1)
    for case, (make, bars) in CASES.items():
        if options.only not in case:
            continue
        task, epochs = make(), 5 if case.startswith("mlp") and not options.quick else 1
        chosen: Execution = decide(task, "auto", LocalWork(batch_size=BATCH))
        contenders: Contenders = {"bare torch": bare(task, epochs), "auto": ours(task, "auto", epochs)}
        if not options.quick:  # compiling takes longer than everything else together
            others = ("vectorised",) if chosen.name == "loop" else ("loop", "compiled")
            contenders |= {name: ours(task, name, epochs) for name in others}
        show(f"{case} ({chosen.name})", best_times(contenders, options.repeat), options.json, bars)
        if case.startswith("mlp") and not options.quick:
            optimizers(case, task, epochs, options.repeat, options.json)
    if options.only in "idle clients":
        idle(options.repeat, options.json)
    if options.only in "whole run":
        overhead(options.repeat, options.json)


if __name__ == "__main__":
    main()
