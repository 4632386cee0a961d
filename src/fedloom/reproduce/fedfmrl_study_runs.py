"""The runs of the studies of FedFMRL: narrow networks on a few CIFAR images, so that a run takes seconds.

The document has ten clients with a ResNet-56, all of CIFAR, and 6 rounds of 50 epochs. Here five clients with a
ResNet-8 (widths 8, 16, 32; the stem divides the image by four) train for 2 rounds of 6 epochs, and distil for 3 (the
document does not say how long). A fifth of the training images is communal, as in the document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from statistics import fmean
from typing import Any

from fedloom.reproduce.study import BASELINE, StudyFinding, StudyRequest, ahead_finding, baseline_score, mean_text
from fedloom.runs.plans.members import Member, folder_name
from fedloom.runs.results.history import History

CLIENTS, ROUNDS, EPOCHS, DISTILLATION_EPOCHS, SERVER_EPOCHS = 5, 2, 6, 3, 2
COMMUNAL, SKEWED_COMMUNAL = 0.2, 0.1
CLASSES = {"cifar100": 100, "cifar10": 10}
IMAGES = {"cifar100": 2000, "cifar10": 600}
"""How many images a client has: with fewer, clients of CIFAR-100 stay at chance."""
CLIENT_SCORE = "client_model/global_test/accuracy/mean"
SERVER_SCORE = "global_model/global_test/accuracy"
DISTILS = {"epochs": DISTILLATION_EPOCHS}
MIXES = {**DISTILS, "server_epochs": SERVER_EPOCHS}
EARLIER = {"alpha_loss": "raw", "alpha_drawn": "every-step"}
"""How equation 6.6 and algorithm 9 were read before."""
MIXING_STEPS = CLIENTS - 1
SENT = "per client and round"
"""The column of bytes."""


@dataclass(frozen=True)
class FmrlResult:
    """What one run measured: accuracies of clients and server on the test set (NaN: none), bytes per client and round.

    Args:
        clients: The mean accuracy of clients' models.
        server: The accuracy of the server's model.
        bytes: What a client sends and gets in a round.
        diverged: Whether the run stopped because numbers were no longer finite.
        baseline: The accuracy of always answering the most frequent class.
    """

    clients: float
    server: float
    bytes: float
    diverged: bool = False
    baseline: float = nan


Results = Mapping[str, Sequence[FmrlResult]]
"""The results of each run's seeds, by its label."""


def equal_clients(data: str) -> dict[str, Any]:
    """The task of clients with equally many random images."""
    return _task(data, {"name": "quantities", "sizes": [IMAGES[data]] * CLIENTS}, COMMUNAL)


def skewed_clients(data: str, beta: float) -> dict[str, Any]:
    """The task of clients with all images, divided class by class by Dir(beta)."""
    return _task(data, {"name": "dirichlet", "alpha": beta}, SKEWED_COMMUNAL)


def _task(data: str, partition: Mapping[str, Any], communal: float) -> dict[str, Any]:
    return {
        "name": data,
        "clients": CLIENTS,
        "partition": dict(partition),
        "communal": communal,
        "test_share": 0.02,
        "model": "resnet8",
        "model_options": {"widths": [8, 16, 32], "stem_stride": 4},
    }


def fmrl_member(label: str, task: Mapping[str, Any], method: Mapping[str, Any], epochs: int = EPOCHS) -> Member:
    """A run of a method.

    Args:
        label: What tables call it.
        task: The section ``task`` of its config.
        method: The section ``method``.
        epochs: Local epochs in each round.
    """
    values: dict[str, Any] = {
        "task": dict(task),
        "method": dict(method),
        "local": {"epochs": epochs, "batch_size": 32, "lr": 0.03, "momentum": 0.9},
        "weight_by": "uniform",
        "execution": "vectorised",
        "rounds": ROUNDS,
        "eval_every": ROUNDS,
        "checkpoint_every": ROUNDS,
        "clients_on_global": True,
    }
    return Member(label, folder_name(label), values)


def results_of(histories: Sequence[History]) -> list[FmrlResult]:
    """What each run of a member measured."""
    found = []
    for history in histories:
        last: Mapping[str, Any] = history.records[-1] if history.records else {"round": 0, "metrics": {}}
        sent = (history.total("bytes_up") + history.total("bytes_down")) / CLIENTS / max(last["round"], 1)
        metrics = last["metrics"]
        clients, server = (metrics.get(name, nan) for name in (CLIENT_SCORE, SERVER_SCORE))
        found.append(
            FmrlResult(clients, server, sent, history.stopped is not None, baseline_score(history, SERVER_SCORE))
        )
    return found


def data_of(request: StudyRequest) -> str:
    """The data set of a study."""
    return request.data or "cifar100"


def setting_text(request: StudyRequest, images: str, communal: float) -> str:
    """What the runs of a study have in common, in a sentence.

    Args:
        request: How the study is run.
        images: How many images clients have, in words.
        communal: The share of communal images.
    """
    return (
        f"{data_of(request)}, {CLIENTS} clients, {images}, of which {100 * communal:.0f} % are communal; ResNet-8 "
        f"with widths 8, 16, 32; {ROUNDS} rounds of {EPOCHS} epochs, {DISTILLATION_EPOCHS} epochs of distillation, "
        f"{SERVER_EPOCHS} epochs of the server per mixing step; mean ± standard deviation over {request.seeds} seeds."
    )


def plain_results(results: Results) -> dict[str, Any]:
    """The numbers behind tables as plain values."""
    return {label: [vars(one) for one in some] for label, some in results.items()}


def run_results(request: StudyRequest, members: Sequence[Member]) -> dict[str, list[FmrlResult]]:
    """What each member of a study measured, by its label; a run may diverge."""
    return {label: results_of(runs) for label, runs in request.run(members, may_stop=True).items()}


def clients_of(results: Sequence[FmrlResult]) -> list[float]:
    """The clients' accuracy of each seed; FedAvg's clients have the server's model."""
    return [one.clients for one in results]


def servers_of(results: Sequence[FmrlResult]) -> list[float]:
    """The accuracy of the server's model of each seed."""
    return [one.server for one in results]


def accuracy_text(results: Sequence[FmrlResult], values: Sequence[float]) -> str:
    """Some accuracies of a run's seeds; how many seeds diverged; – where nothing was measured."""
    lost = sum(one.diverged for one in results)
    if lost:
        return f"diverged ({lost} of {len(results)})"
    return "–" if any(map(isnan, values)) else mean_text(values)


def baseline_row(groups: Sequence[Sequence[FmrlResult]], columns: int) -> tuple[str, ...]:
    """The row of the baseline: a cell for each group of runs with the same clients, and – in all other columns.

    Args:
        groups: One run's results, per column of accuracies.
        columns: How many columns the table has.
    """
    cells = [accuracy_text([], [one.baseline for one in some]) for some in groups]
    return (BASELINE, *cells, *["–"] * (columns - 1 - len(cells)))


def bytes_text(number: float) -> str:
    """Bytes as megabytes."""
    return f"{number / 1e6:.2f} MB"


def sent_text(results: Sequence[FmrlResult]) -> str:
    """What a client sends and gets in a round, on average over seeds."""
    return bytes_text(fmean(one.bytes for one in results))


def client_finding(results: Results, says: str, one: str, other: str) -> StudyFinding:
    """The finding that the clients of one run are above those of another.

    Args:
        says: The sentence.
        one: The label of the run that should be above.
        other: The label of the other.
    """
    some, others = results[one], results[other]
    a, b = ([0.0 if result.diverged else result.clients for result in each] for each in (some, others))
    return ahead_finding(says, f"{accuracy_text(some, a)} and {accuracy_text(others, b)}", a, b)
