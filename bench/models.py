"""What clients with different models cost: 20 clients on three architectures, against the sum of their separate runs.

The separate runs have the same clients, data and rounds, and one architecture each. The second case is collecting what
the models of equal clients say of communal samples: batched over clients, against one client after another.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from functools import partial

import torch
from torch import nn

from fedloom.core.local_work import LocalWork
from fedloom.core.model.architectures import Architectures
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from fedloom.models import build
from fedloom.runs.run import run_on_task
from fedloom.training.local_trainer import LocalTrainer
from local import BATCH, RATE, federation, mlp
from measure import arguments, best_times, line, show

CLIENTS, SAMPLES, ROUNDS = 20, 240, 3
DEARER = 1.2
"""How many times the sum of the separate runs a mixed run may cost."""
IMAGE = (1, 28, 28)


def pool(kind: str) -> list[nn.Module]:
    """Three architectures: small MLPs, which train batched, or convolutional networks, which do not."""
    if kind == "MLPs":
        return [nn.Sequential(nn.Flatten(), *mlp(784, width, 10)) for width in (16, 32, 64)]
    narrow = build("resnet8", IMAGE, 10, 0, widths=[8, 16, 32])
    return [build("lenet-small", IMAGE, 10, 0), narrow, build("mini-mobilenet", IMAGE, 10, 0)]


def some_clients(whole: Federation, clients: list[int]) -> Federation:
    """The same data with some of the clients."""
    lists = (Ragged.of([part[client] for client in clients]) for part in (whole.train, whole.test, whole.valid))
    train, test, valid = lists
    return replace(whole, train=train, test=test, valid=valid)


def play(tasks: list[Task], method: str) -> None:
    """A short run of each task."""
    for task in tasks:
        run_on_task(task, method, rounds=ROUNDS, local=LocalWork(lr=RATE, batch_size=BATCH), eval_every=0)


def measure_mixed(options: Namespace) -> None:
    """Rounds of FLD with mixed clients, against a run of each architecture's clients."""
    for kind in ("MLPs",) if options.quick else ("MLPs", "CNNs"):
        models, whole = pool(kind), federation(CLIENTS, SAMPLES, IMAGE, 10)
        whole = replace(whole, communal=torch.arange(0, CLIENTS * SAMPLES, 24))
        owners = torch.arange(CLIENTS) % len(models)
        mixed = Task("mixed", whole, models[0], architectures=Architectures(tuple(models), ("a", "b", "c"), owners))
        apart = [
            Task(str(number), some_clients(whole, (owners == number).nonzero().flatten().tolist()), model)
            for number, model in enumerate(models)
        ]
        for method in ("local", "fld"):
            contenders = {"three separate runs": partial(play, apart, method), "mixed": partial(play, [mixed], method)}
            best = best_times(contenders, options.repeat)
            show(f"{method}, 20 clients, 3 {kind}", best, options.json, {"mixed": 1 / DEARER})


def measure_collect(options: Namespace) -> None:
    """Outputs of 20 small models on 1,000 samples."""
    task = Task("collect", federation(CLIENTS, SAMPLES, IMAGE, 10), nn.Sequential(nn.Flatten(), *mlp(784, 32, 10)))
    rows, on = task.initial_row().expand(CLIENTS, -1), torch.arange(1000)
    trainers = {"one after another": LocalTrainer(task, "loop"), "batched": LocalTrainer(task, "vectorised")}
    contenders = {
        name: lambda trainer=trainer: trainer.collect(rows, on, lambda net, x, _: {"outputs": net(x)})
        for name, trainer in trainers.items()
    }
    best = best_times(contenders, options.repeat)
    first = best["one after another"][0]
    for name, (cpu, wall) in best.items():
        line("outputs of 20 MLPs", name, cpu, wall, first / cpu, options.json)


if __name__ == "__main__":
    asked = arguments(__doc__ or "")
    torch.set_num_threads(1)
    for case in (measure_mixed, measure_collect):
        if asked.only in case.__name__:
            case(asked)
