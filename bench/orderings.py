"""The orderings that the documents report, on real data: who beats whom, by how much, over seeds.

Each study prints mean ± standard deviation over seeds of what it compares, and of the task's baselines. The slow tests
of tests/test_orderings.py play the same studies and check them with margins; docs/orderings.md holds the numbers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import fedloom as fl
from fedloom.conformance.run_method import run_method
from fedloom.prediction.fedpredict import FedPredict
from fedloom.runs.results.summaries import CLIENTS, GLOBAL

Results = dict[str, list[float]]
"""What was compared, and a number per seed."""
FASHION = {"model": "mlp", "model_options": {"hidden": [64]}}
"""Fashion-MNIST is learnt by a small MLP, so that three seeds of a study take minutes."""


def fedpredict(alpha: float, selector: str, seeds: int, rounds: int = 20, model: str = "cnn-two") -> Results:
    """FedAvg with and without FedPredict on GTSRB, 6 of 20 clients per round: mean client accuracy over the rounds.

    The stage does not touch training, so both are scored on the same trained models, every other round.
    """
    found: Results = {"fedavg": [], "fedavg+fedpredict": []}
    local = {"lr": 0.01, "momentum": 0.9, "batch_size": 32}
    chosen = {"name": selector, "number": 6}
    for seed in range(seeds):
        data = fl.task("gtsrb", clients=20, alpha=alpha, model=model, seed=seed)
        run = run_method(
            data, fl.FedAvg(), 0, local, selection=chosen, prediction=[FedPredict()], seed=seed, rounds=rounds
        )
        scores: Results = {name: [] for name in found}
        for _ in range(rounds // 2):
            run = run.continue_for(2)
            for name, stages in (("fedavg", False), ("fedavg+fedpredict", True)):
                scores[name].append(run.accuracy(stages))
        for name, values in scores.items():
            found[name].append(float(np.mean(values)))
        add_baselines(found, data, CLIENTS, seed)
    return found


def add_baselines(found: Results, data: fl.Task, metric: str, seed: int) -> None:
    """What answering without a model scores on the same test samples, of this seed, beside what was compared."""
    history = fl.run(data, "local", rounds=1, seed=seed, local={"steps": 1})
    for one in history.baselines:
        if metric in one["metrics"]:
            found.setdefault(f"baseline: {one['name']}", []).append(float(one["metrics"][metric]))


SEQUENTIAL = {
    "fedavg": "fedavg",
    "fedseq random": "fedseq:grouping=random,max_clients=8",
    "fedseq greedy": "fedseq:grouping=greedy,approximator=conf,metric=kl,max_clients=8",
}


def fedseq(
    alpha: float, seeds: int, rounds: int = 60, lr: float = 0.02, methods: Sequence[str] = tuple(SEQUENTIAL)
) -> tuple[Results, Results]:
    """FedSeq against FedAvg on Fashion-MNIST, 100 clients, 20 % per round: final accuracy, rounds to FedAvg's final."""
    final: Results = {}
    reached: Results = {}
    for seed in range(seeds):
        partition = "shards(1)" if alpha == 0 else f"dirichlet({alpha})"
        data = fl.task("fashion-mnist", clients=100, partition=partition, communal_per_class=10, seed=seed, **FASHION)
        for name in methods:
            accuracy = _global(data, SEQUENTIAL[name], rounds, seed, {"lr": lr, "batch_size": 32})
            final.setdefault(name, []).append(float(np.mean(accuracy[-5:])))
            smooth = np.convolve(accuracy, np.ones(3) / 3, mode="valid")
            target = final["fedavg"][-1]
            first = next((2 * (place + 3) for place, value in enumerate(smooth) if value >= target), rounds + 2)
            reached.setdefault(name, []).append(float(first))
        add_baselines(final, data, GLOBAL, seed)
    return final, reached


def drift(
    alpha: float, seeds: int, rounds: int = 30, methods: Sequence[str] = ("fedavg", "scaffold", "feddyn")
) -> Results:
    """FedAvg, SCAFFOLD and FedDyn on Fashion-MNIST, 50 clients, 20 % per round: global accuracy, last 10 rounds."""
    found: Results = {}
    for seed in range(seeds):
        data = fl.task("fashion-mnist", clients=50, alpha=alpha, seed=seed, **FASHION)
        for method in methods:
            accuracy = _global(data, method, rounds, seed, {"epochs": 2, "lr": 0.02, "batch_size": 32})
            found.setdefault(method, []).append(float(np.mean(accuracy[-5:])))
        add_baselines(found, data, GLOBAL, seed)
    return found


def _global(data: fl.Task, method: str, rounds: int, seed: int, local: dict[str, Any]) -> list[float]:
    """The accuracy of the global model, every other round."""
    history = fl.run(
        data, method, rounds=rounds, seed=seed, local=local, selection={"fraction": 0.2}, eval_clients=1, eval_every=2
    )
    return history.series(GLOBAL)[1][1:]


PERSONALISED = ("fedper", "lgfedavg", "fedrep", "ditto", "fedavg+finetune", "fedavg+fedpredict")


def personalised(
    alpha: float, seeds: int, rounds: int = 15, methods: Sequence[str] = ("local", *PERSONALISED)
) -> Results:
    """Personalised methods against FedAvg on Fashion-MNIST, 20 clients, half per round: final mean client accuracy."""
    found: Results = {}
    for seed in range(seeds):
        data = fl.task("fashion-mnist", clients=20, alpha=alpha, seed=seed, **FASHION)
        for method in ("fedavg", *methods):
            history = fl.run(data, method, rounds=rounds, seed=seed, selection={"fraction": 0.5}, eval_every=rounds)
            found.setdefault(method, []).append(float(history.series(CLIENTS)[1][-1]))
        add_baselines(found, data, CLIENTS, seed)
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
        "drift": lambda: [show(f"drift control, alpha {a}", drift(a, options.seeds)) for a in (0.05, 0.1, 1.0, 100.0)],
        "personalised": lambda: [
            show(f"personalised methods, alpha {a}", personalised(a, options.seeds)) for a in (0.1, 1.0, 100.0)
        ],
    }
    for name, study in studies.items():
        if options.only in name:
            study()


def _fedpredict(seeds: int) -> None:
    for alpha in (0.1, 1.0):
        for selector in ("random", "powerofchoice"):
            show(f"FedPredict on GTSRB, alpha {alpha}, {selector}", fedpredict(alpha, selector, seeds))


def _fedseq(seeds: int) -> None:
    for alpha in (0.0, 0.2):
        final, reached = fedseq(alpha, seeds)
        show(f"FedSeq on Fashion-MNIST, alpha {alpha}: final accuracy", final)
        show(f"FedSeq on Fashion-MNIST, alpha {alpha}: rounds to FedAvg's final accuracy", reached, scale=1.0)


if __name__ == "__main__":
    main()
