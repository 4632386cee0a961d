"""What trust costs: a robust rule on many large rows, and a round whose updates are compressed.

A limit in seconds is shown as a ratio too: how often the work could be done within it.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

import fedloom as fl
from fedloom.aggregation.krum import Krum
from fedloom.core.aggregation_context import AggregationContext
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.models import build
from fedloom.runs.prepare import prepare
from fedloom.runs.resolve_config import resolve
from fedloom.runs.run import run
from local import BATCH, RATE, federation, mlp
from measure import arguments, best_times, line, show

KRUM_SECONDS = 3.0
DEARER = 1.3
"""How many times as much a round with top-k may cost as one without."""


def measure_krum(repeat: int, as_json: bool) -> None:
    """Krum on 1,000 rows of 100,000 columns."""
    rows = torch.randn(1_000, 100_000, generator=torch.Generator().manual_seed(0))
    weights, task = torch.full((1_000,), 1e-3), Task("bench", federation(2, 10, (4,), 2), mlp(4, 3, 2))
    context = AggregationContext.of(prepare(task, fl.FedAvg(), resolve({}, task=task)).composition.context(1))
    cpu, wall = best_times({"krum": lambda: Krum(share=0.2)(rows, weights, context)}, repeat)["krum"]
    line("krum, 1,000 rows x 100,000", f"in {KRUM_SECONDS:g} s", cpu, wall, KRUM_SECONDS / wall, as_json, 1.0)


def measure_topk(repeat: int, as_json: bool) -> None:
    """Rounds of FedAvg whose clients send the largest tenth of their update, against rounds without a channel."""
    flat = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
    for name, model in {"LeNet-5": build("lenet-small", (1, 28, 28), 10, 0), "MLP 784-64-10": flat}.items():
        task = Task("bench", federation(20, 480, (1, 28, 28), 10), model)
        settings = {"rounds": 4, "local": LocalWork(lr=RATE, batch_size=BATCH), "eval_every": 0}
        settings |= {"selection": {"number": 10}}
        contenders = {
            "without": partial(run, task, **settings),
            "topk": partial(run, task, channel=[fl.TopK(fraction=0.1)], **settings),
        }
        show(f"rounds of {name}", best_times(contenders, repeat), as_json, {"topk": 1 / DEARER})


CASES = {"krum": measure_krum, "topk": measure_topk}


def main() -> None:
    """Measure all cases."""
    options = arguments("What trust costs.")
    torch.set_num_threads(1)
    for name, measure in CASES.items():
        if options.only in name:
            measure(options.repeat, options.json)


if __name__ == "__main__":
    main()
