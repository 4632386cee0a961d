"""What public words with buckets cost in accuracy, against words that are pooled from everybody's flows.

For each seed the same organisations train with both vocabularies, from the same split. Both models answer the same
question: a class that only one vocabulary has (a bucket, a kind that is rare in the other's counts) counts as "other",
in what is predicted and in what is true. Printed is the mean over clients of the share of right answers on their test
parts, with the models they predict with.

    python bench/flow_vocabulary.py --task n8n --clients 10 --rounds 8 --seeds 3
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fedloom as fl
from fedloom.runs.results.client_model import client_model
from fedloom.training.evaluation import EVALUATION_BATCH
from fedloom.training.threads import single_thread

LOCAL: dict[str, Any] = {"optimizer": "adam", "lr": 0.0005, "batch_size": 32}


def answers(task: fl.Task, folder: Path, client: int) -> tuple[list[str], list[str]]:
    """The names of the classes that a client's model predicts on its test part, and of the true ones."""
    found = client_model(folder, str(client), task=task)
    model = deepcopy(found.task.model).eval()
    found.task.layout.fill(model, found.row)
    positions, names = task.federation.test[client], task.federation.class_names
    guesses: list[Tensor] = []
    with torch.inference_mode(), single_thread():
        for some in positions.split(EVALUATION_BATCH):
            guesses.append(model(found.task.prepare(task.federation.columns["x"][some])).argmax(1))
    truth = task.federation.columns["y"][positions]
    return [names[i] for i in torch.cat(guesses).tolist()], [names[i] for i in truth.tolist()]


def accuracies(arguments: argparse.Namespace, seed: int, home: Path) -> dict[str, float]:
    """The mean accuracy of clients with each vocabulary, on the classes that both have."""
    made: dict[str, list[tuple[list[str], list[str]]]] = {}
    classes: list[set[str]] = []
    for vocabulary in ("pooled", *(f"public {buckets}" for buckets in arguments.buckets)):
        kind, _, buckets = vocabulary.partition(" ")
        options = {"vocabulary": kind, **({"buckets": int(buckets)} if buckets else {})}
        options |= {"largest": arguments.largest} if arguments.task.startswith("flows") else {}
        task = fl.task(arguments.task, clients=arguments.clients, options=options, seed=seed, valid_share=0.1)
        folder = home / f"{vocabulary} {seed}"
        fl.run(task, arguments.method, rounds=arguments.rounds, seed=seed, local=LOCAL, eval_every=0, out=folder)
        made[vocabulary] = [answers(task, folder, client) for client in range(task.federation.clients)]
        classes.append({name for name in task.federation.class_names if not name.startswith("bucket ")})
    both = set.intersection(*classes)

    def share(guesses: list[str], truth: list[str]) -> float:
        right = [(a if a in both else "") == (b if b in both else "") for a, b in zip(guesses, truth, strict=True)]
        return sum(right) / len(right)

    return {name: statistics.mean(share(*one) for one in clients) for name, clients in made.items()}


def main() -> None:
    """Print a line per seed, and the mean difference with its standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="n8n")
    parser.add_argument("--method", default="fedavg+finetune")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--largest", type=int, default=4_000, help="of the synthetic corpus")
    parser.add_argument("--buckets", type=int, nargs="+", default=[256])
    arguments = parser.parse_args()
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as home:
        for seed in range(arguments.seeds):
            began = time.process_time()
            rows.append(accuracies(arguments, seed, Path(home)))
            shown = ", ".join(f"{name} {100 * value:.2f} %" for name, value in rows[-1].items())
            print(f"seed {seed}: {shown} ({time.process_time() - began:.0f} s)", flush=True)
    for name in list(rows[0])[1:]:
        costs = [100 * (row["pooled"] - row[name]) for row in rows]
        error = statistics.stdev(costs) / len(costs) ** 0.5 if len(costs) > 1 else float("nan")
        print(f"{name}: {statistics.mean(costs):.2f} points below pooled (standard error {error:.2f})")


if __name__ == "__main__":
    main()
