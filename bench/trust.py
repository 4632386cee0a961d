"""What trust costs: a robust rule on many large rows, a round whose updates are compressed, and sums that hide updates.

A limit in seconds is shown as a ratio too: how often the work could be done within it.
"""

from __future__ import annotations

from argparse import Namespace
from functools import partial

import torch
from torch import nn

import fedloom as fl
from fedloom.aggregation.krum import Krum
from fedloom.config.resolve import resolve
from fedloom.core.aggregator import AggregationContext
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.core.trainer import TrainingRequest
from fedloom.models import build
from fedloom.privacy.sample_privacy import SamplePrivacy
from fedloom.runs.prepare import prepare
from fedloom.runs.run import run_on_task
from fedloom.secure.sum_step import SumSession, SumStep
from fedloom.secure.sums import play_sum
from fedloom.training.local_trainer import LocalTrainer
from local import BATCH, RATE, federation, mlp
from measure import arguments, best_times, line, show

KRUM_SECONDS = 3.0
SUM_SECONDS = 2.0
SUM_BYTES = 1.5
"""How many times the bytes of a plain round a round with secure sums may send."""
LENET = 61_706
"""The parameters of LeNet-5."""
DEARER = 1.3
"""How many times as much a round with top-k may cost as one without."""


def measure_krum(options: Namespace) -> None:
    """Krum on 1,000 rows of 100,000 columns."""
    rows = torch.randn(1_000, 100_000, generator=torch.Generator().manual_seed(0))
    weights, task = torch.full((1_000,), 1e-3), Task("bench", federation(2, 10, (4,), 2), mlp(4, 3, 2))
    context = AggregationContext.of(prepare(task, fl.FedAvg(), resolve({}, task=task)).composition.context(1))
    cpu, wall = best_times({"krum": lambda: Krum(share=0.2)(rows, weights, context)}, options.repeat)["krum"]
    line("krum, 1,000 rows x 100,000", f"in {KRUM_SECONDS:g} s", cpu, wall, KRUM_SECONDS / cpu, options.json, 1.0)


def trained_models(quick: bool) -> dict[str, nn.Module]:
    """An MLP, and beside the guard a LeNet too."""
    flat = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
    return {"MLP 784-64-10": flat} | ({} if quick else {"LeNet-5": build("lenet-small", (1, 28, 28), 10, 0)})


def measure_topk(options: Namespace) -> None:
    """Rounds of FedAvg whose clients send the largest tenth of their update, against rounds without a channel."""
    for name, model in trained_models(options.quick).items():
        task = Task("bench", federation(20, 480, (1, 28, 28), 10), model)
        settings = {"rounds": 4, "local": LocalWork(lr=RATE, batch_size=BATCH), "eval_every": 0}
        settings |= {"selection": {"number": 10}}
        contenders = {
            "without": partial(run_on_task, task, **settings),
            "topk": partial(run_on_task, task, channel=[fl.TopK(fraction=0.1)], **settings),
        }
        show(f"rounds of {name}", best_times(contenders, options.repeat), options.json, {"topk": 1 / DEARER})


def train_sample_by_sample(task: Task, steps: int, privacy: SamplePrivacy) -> None:
    """DP-SGD as a loop: a backward pass of an ordinary module for every drawn sample of every client."""
    model, generator = task.model, torch.Generator().manual_seed(0)
    parameters = list(model.parameters())
    for client in range(task.federation.clients):
        task.layout.fill(model, task.initial_row())
        own = task.federation.train[client]
        for _ in range(steps):
            total = [torch.zeros_like(parameter) for parameter in parameters]
            for position in own[torch.rand(len(own), generator=generator) < BATCH / len(own)]:
                values, _ = task.objective.losses(model(task.inputs(position[None])), task.targets(position[None]))
                gradients = torch.autograd.grad(values.sum(), parameters)
                norm = torch.stack([g.norm() for g in gradients]).norm()
                for sum_, gradient in zip(total, gradients, strict=True):
                    sum_.add_(gradient, alpha=min(1.0, privacy.clip / float(norm)))
            with torch.no_grad():
                for parameter, sum_ in zip(parameters, total, strict=True):
                    noise = privacy.noise * privacy.clip * torch.randn(sum_.shape, generator=generator)
                    parameter.sub_(RATE / BATCH * (sum_ + noise))


def measure_dp_sgd(options: Namespace) -> None:
    """Local training by DP-SGD, all samples of all clients at once, against a loop over samples."""
    for name, model in trained_models(options.quick).items():
        task, privacy = Task("bench", federation(10, 120, (1, 28, 28), 10), model), SamplePrivacy()
        trainer, work = LocalTrainer(task, "vectorised"), LocalWork(steps=2, batch_size=BATCH, lr=RATE)
        request = TrainingRequest(
            rows=task.initial_row().expand(10, -1),
            clients=list(range(10)),
            positions=[task.federation.train[client] for client in range(10)],
            work=work,
            lr=RATE,
            seed=0,
            round=1,
            privacy=privacy,
        )
        contenders = {
            "sample by sample": partial(train_sample_by_sample, task, 2, privacy),
            "dp-sgd": partial(trainer.train, request),
        }
        show(f"DP-SGD of {name}", best_times(contenders, options.repeat), options.json, {"dp-sgd": 5.0})


def play_whole_sum(step: SumStep, session: SumSession, values: torch.Tensor) -> tuple[int, int]:
    """Code the clients' rows and play all stages of both halves in this process: the bytes up and down."""
    generators = [torch.Generator().manual_seed(client) for client in session.ids]
    rows = step.code(values, torch.ones(len(values), dtype=torch.int64), session, generators)
    _, up, down = play_sum(step, session, dict(zip(session.ids, rows, strict=True)))
    return up, down


def measure_secure_sums(options: Namespace) -> None:
    """A secure sum of 100 clients and 100,000 numbers; and the bytes of such a round of LeNet, both ways."""
    session, step = SumSession("bench", 1, 0, tuple(range(100)), 1), fl.SecureSum(bits=16)
    values = torch.rand(100, 100_000, generator=torch.Generator().manual_seed(0)) - 0.5
    best = best_times({"sum": partial(play_whole_sum, step, session, values)}, min(options.repeat, 3))
    cpu, wall = best["sum"]
    line("secure sum, 100 x 100,000", f"in {SUM_SECONDS:g} s", cpu, wall, SUM_SECONDS / cpu, options.json, 1.0)
    up, down = play_whole_sum(step, session, values[:, :LENET])
    times = (up + down + 100 * 4 * LENET) / (100 * 8 * LENET)
    line(
        "bytes of LeNet, 16 bits", f"within {SUM_BYTES:g}x", 0.0, 0.0, SUM_BYTES / times, options.json, 1.0, times=times
    )


def measure_homomorphic_sums(options: Namespace) -> None:
    """Homomorphic sums of LeNet over 3 and 10 sites."""
    for sites in (3, 10):
        session, values = SumSession("bench", 1, 0, tuple(range(sites)), 1), torch.rand(sites, LENET) - 0.5
        best = best_times({"sum": partial(play_whole_sum, fl.CKKS(), session, values)}, options.repeat)
        show(f"homomorphic sum, {sites} x LeNet", best, options.json)


CASES = {
    "krum": measure_krum,
    "topk": measure_topk,
    "dp-sgd": measure_dp_sgd,
    "secure": measure_secure_sums,
    "homomorphic": measure_homomorphic_sums,
}


def main() -> None:
    """Measure all cases."""
    options = arguments("What trust costs.")
    torch.set_num_threads(1)
    for name, measure in CASES.items():
        if options.only in name and not (options.quick and measure is measure_homomorphic_sums):  # it has no bar
            measure(options)


if __name__ == "__main__":
    main()
