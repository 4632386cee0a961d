"""The orderings that the documents report, on real data: who beats whom, by how much, over seeds.

Each study prints mean ± standard deviation over seeds of what it compares. The slow tests of tests/test_orderings.py
play the same studies and check them with margins; docs/orderings.md holds the numbers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import fedloom as fl
from fedloom.runs.history import CLIENTS, GLOBAL

Results = dict[str, list[float]]
"""What was compared, and a number per seed."""
CHAINS = "min_samples=1500,max_clients=8"
"""Fashion-MNIST over 100 clients has 300 samples each: chains of five."""


def fedpredict(alpha: float, selector: str, seeds: int, task: str = "gtsrb", rounds: int = 30) -> Results:
    """FedAvg with and without FedPredict at the low selection level (6 of 20): mean client accuracy over all rounds."""
    found: Results = {}
    for seed in range(seeds):
        data = fl.task(task, clients=20, alpha=alpha, model="cnn-two", seed=seed)
        for method in ("fedavg", "fedavg+fedpredict"):
            history = fl.run(
                data,
                method,
                rounds=rounds,
                seed=seed,
                local={"lr": 0.01, "momentum": 0.9, "batch_size": 32},
                selection={"name": selector, "number": 6},
            )
            found.setdefault(method, []).append(float(np.mean(history.series(CLIENTS)[1][1:])))
    return found


def fedseq(alpha: float, seeds: int, rounds: int = 100) -> tuple[Results, Results]:
    """FedSeq against FedAvg on Fashion-MNIST, 100 clients: final accuracy, and rounds to FedAvg's final accuracy."""
    final: Results = {}
    reached: Results = {}
    for seed in range(seeds):
        partition = "shards(1)" if alpha == 0 else f"dirichlet({alpha})"
        data = fl.task("fashion-mnist", clients=100, partition=partition, model="mlp", communal_per_class=10, seed=seed)
        methods = {
            "fedavg": "fedavg",
            "fedseq random": f"fedseq:grouping=random,{CHAINS}",
            "fedseq greedy": f"fedseq:grouping=greedy,approximator=conf,metric=kl,{CHAINS}",
        }
        for name, method in methods.items():
            history = fl.run(data, method, rounds=rounds, seed=seed, selection={"fraction": 0.2}, eval_clients=1)
            accuracy = history.series(GLOBAL)[1][1:]
            final.setdefault(name, []).append(float(np.mean(accuracy[-10:])))
            smooth = np.convolve(accuracy, np.ones(5) / 5, mode="valid")
            target = final["fedavg"][-1]
            first = next((number + 5 for number, value in enumerate(smooth) if value >= target), rounds + 1)
            reached.setdefault(name, []).append(float(first))
    return final, reached


def drift(alpha: float, seeds: int, rounds: int = 60) -> Results:
    """FedAvg, SCAFFOLD and FedDyn on Fashion-MNIST, 50 clients, 20 % per round: global accuracy, last 10 rounds."""
    found: Results = {}
    for seed in range(seeds):
        data = fl.task("fashion-mnist", clients=50, alpha=alpha, model="mlp", seed=seed)
        for method in ("fedavg", "scaffold", "feddyn"):
            local = {"epochs": 5, "lr": 0.02, "batch_size": 32}
            history = fl.run(
                data, method, rounds=rounds, seed=seed, local=local, selection={"fraction": 0.2}, eval_clients=1
            )
            found.setdefault(method, []).append(float(np.mean(history.series(GLOBAL)[1][-10:])))
    return found


PERSONALISED = ("local", "fedper", "lgfedavg", "fedrep", "ditto", "fedavg+finetune", "fedavg+fedpredict")


def personalised(alpha: float, seeds: int, rounds: int = 30) -> Results:
    """Personalised methods against FedAvg on Fashion-MNIST, 20 clients: mean client accuracy of the last 5 rounds."""
    found: Results = {}
    for seed in range(seeds):
        data = fl.task("fashion-mnist", clients=20, alpha=alpha, model="mlp", seed=seed)
        for method in ("fedavg", *PERSONALISED):
            history = fl.run(data, method, rounds=rounds, seed=seed, selection={"fraction": 0.5})
            found.setdefault(method, []).append(float(np.mean(history.series(CLIENTS)[1][-5:])))
    return found


def show(title: str, results: Mapping[str, list[float]], scale: float = 100.0) -> None:
    """Print a study as a table of mean ± std."""
    print(f"\n{title}")
    for name, values in results.items():
        mean, std = np.mean(values) * scale, np.std(values, ddof=1) * scale if len(values) > 1 else 0.0
        print(f"  {name:24s} {mean:7.2f} ± {std:.2f}", flush=True)


def main() -> None:
    """Play the studies that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="only the studies whose name contains this")
    options = parser.parse_args()
    studies: dict[str, Callable[[], Any]] = {
        "fedpredict": lambda: _fedpredict(options.seeds),
        "fedseq": lambda: _fedseq(options.seeds),
        "drift": lambda: [show(f"drift control, alpha {a}", drift(a, options.seeds)) for a in (0.05, 0.1, 100.0)],
        "personalised": lambda: [
            show(f"personalised methods, alpha {a}", personalised(a, options.seeds)) for a in (0.1, 1.0, 100.0)
        ],
    }
    for name, study in studies.items():
        if options.only in name:
            study()


def _fedpredict(seeds: int) -> None:
    for task in ("gtsrb", "cifar10"):
        for alpha in (0.1, 1.0):
            for selector in ("random", "powerofchoice"):
                show(f"FedPredict on {task}, alpha {alpha}, {selector}", fedpredict(alpha, selector, seeds, task))


def _fedseq(seeds: int) -> None:
    for alpha in (0.0, 0.2):
        final, reached = fedseq(alpha, seeds)
        show(f"FedSeq on Fashion-MNIST, alpha {alpha}: final accuracy", final)
        show(f"FedSeq on Fashion-MNIST, alpha {alpha}: rounds to FedAvg's final accuracy", reached, scale=1.0)


if __name__ == "__main__":
    main()
