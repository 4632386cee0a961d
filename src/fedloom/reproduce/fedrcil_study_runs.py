"""The runs of the studies of FedRCIL: narrow networks on a few images, so that a run takes seconds.

The document has ten clients with a ResNet-56, all of CIFAR-100 in 5 tasks of 20 classes, and 6 rounds of 10 epochs per
task. Here five clients with a ResNet-8 (the stem divides the image by four) have 800 images each of MNIST, in 5 tasks
of 2 classes, of which a quarter are their test parts; without tasks they have 600, play 6 rounds, and are measured on
the test set. Where clients' classes differ, the images are CIFAR-100's, with 2 rounds per task and 4 without tasks: the
exemplars are then as many as the authors', and a run is long. A fifth of the training images is communal, as in the
document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isinf, isnan, nan
from statistics import fmean
from typing import Any

from fedloom.reproduce.study import BASELINE, StudyFinding, StudyRequest, ahead_finding, baseline_score, mean_text
from fedloom.runs.plans.members import Member, folder_name
from fedloom.runs.results.history import History

CLIENTS, IMAGES, FEW_IMAGES, TASKS = 5, 800, 600, 5
EXEMPLARS = 100
COMMUNAL = 0.2
DATA, SKEWED_DATA = "mnist", "cifar100"
WIDTHS = {DATA: [8, 16, 16], SKEWED_DATA: [8, 16, 32]}
EPOCHS, DISTILLATION_EPOCHS = {DATA: 5, SKEWED_DATA: 3}, {DATA: 2, SKEWED_DATA: 1}
ROUNDS, PLAIN_ROUNDS = {DATA: 3, SKEWED_DATA: 2}, {DATA: 6, SKEWED_DATA: 4}
"""The rounds of each task of a stream, and those without a stream."""
OWN_TEST, TEST = "client_model/own_test/", "client_model/global_test/"
SERVER_SCORE = "global_model/global_test/accuracy"
METHOD: Mapping[str, Any] = {
    "name": "fedrcil",
    "multi_loss": "B",
    "epochs": DISTILLATION_EPOCHS[DATA],
    "exemplars": EXEMPLARS,
    "exemplar_epochs": 0,
}
"""The method as the thesis prints it."""
MANY_EXEMPLARS = 2000
"""The exemplars where clients' classes differ, as many as the authors have: all communal images, which are fewer."""
IID = inf
"""The concentration of clients that do not differ."""


@dataclass(frozen=True)
class StreamResult:
    """What one run measured.

    Args:
        accuracy: The mean accuracy of clients' models after the last task, on all classes.
        forgetting: The best accuracy on each earlier task minus the last, on average; NaN without a stream.
        tasks: The accuracy on all classes so far after each task.
        bytes: What a client sends and gets in a round.
        baseline: The accuracy of always answering the most frequent class, after the last task.
    """

    accuracy: float
    forgetting: float
    tasks: tuple[float, ...]
    bytes: float
    baseline: float = nan


StreamResults = Mapping[str, Sequence[StreamResult]]
"""The results of each run's seeds, by its label."""


def stream_task(beta: float | None = None, *, stream: bool = True, joint: bool = False) -> dict[str, Any]:
    """The section ``task``: some images of MNIST, or where clients' classes differ all of CIFAR-100.

    Args:
        beta: The concentration of classes at clients, infinite for none; None for equally many random images of MNIST.
        stream: Whether classes come in tasks.
        joint: Whether the images of earlier tasks stay.
    """
    images: dict[str, Any] = {"name": "quantities", "sizes": [IMAGES if stream else FEW_IMAGES] * CLIENTS}
    data = DATA if beta is None else SKEWED_DATA
    tasks = {"stream": {"tasks": TASKS, "rounds": ROUNDS[data], "cumulative": joint}} if stream else {}
    skewed: dict[str, Any] = (
        {"name": "iid"} if beta is not None and isinf(beta) else {"name": "dirichlet", "alpha": beta}
    )
    return {
        "name": data,
        "clients": CLIENTS,
        "partition": images if beta is None else skewed,
        "communal": COMMUNAL,
        "test_share": 0.25 if _on_own_tests(data, stream) else 0.02,
        "model": "resnet8",
        "model_options": {"widths": WIDTHS[data], "stem_stride": 4},
        **tasks,
    }


def _on_own_tests(data: str, stream: bool) -> bool:
    """Whether clients are measured on their own test parts: MNIST's test set after every task would take too long."""
    return data == DATA and stream


def stream_member(label: str, task: Mapping[str, Any], method: Mapping[str, Any]) -> Member:
    """A run of a method.

    Args:
        label: What tables call it.
        task: The section ``task`` of its config.
        method: The section ``method``.
    """
    data, streams = task["name"], "stream" in task
    rounds = TASKS * ROUNDS[data] if streams else PLAIN_ROUNDS[data]
    values: dict[str, Any] = {
        "task": dict(task),
        "method": dict(method),
        "local": {"epochs": EPOCHS[data], "batch_size": 64, "lr": 0.03, "momentum": 0.9},
        "weight_by": "uniform",
        "rounds": rounds,
        "eval_every": ROUNDS[data] if streams else rounds,
        "checkpoint_every": rounds,
        "clients_on_global": not _on_own_tests(data, streams),
    }
    return Member(label, folder_name(label), values)


def stream_results(request: StudyRequest, members: Sequence[Member]) -> dict[str, list[StreamResult]]:
    """What each member of a study measured, by its label."""
    return {label: [result_of(history) for history in runs] for label, runs in request.run(members).items()}


def result_of(history: History) -> StreamResult:
    """What a run measured on the test set, or else on clients' test parts; FedAvg's clients have the shared model."""
    scored = [record["metrics"] for record in history.records if f"{OWN_TEST}accuracy/mean" in record["metrics"]]
    where = TEST if f"{TEST}accuracy/mean" in scored[-1] else OWN_TEST
    accuracies = tuple(metrics[f"{where}accuracy/mean"] for metrics in scored)
    sent = (history.total("bytes_up") + history.total("bytes_down")) / CLIENTS / history.records[-1]["round"]
    baseline = baseline_score(history, SERVER_SCORE if where == TEST else f"{OWN_TEST}accuracy/mean")
    return StreamResult(accuracies[-1], scored[-1].get(f"{where}forgetting/mean", nan), accuracies[1:], sent, baseline)


def accuracies_of(results: Sequence[StreamResult]) -> list[float]:
    """The last accuracy of each seed."""
    return [one.accuracy for one in results]


def forgetting_of(results: Sequence[StreamResult]) -> list[float]:
    """The forgetting of each seed."""
    return [one.forgetting for one in results]


def points_text(values: Sequence[float]) -> str:
    """Mean and deviation in points; – where nothing was measured."""
    return "–" if any(map(isnan, values)) else mean_text(values)


def baseline_row(groups: Sequence[Sequence[StreamResult]], columns: int, first: int = 1) -> tuple[str, ...]:
    """The row of the baseline: a cell for each group of runs with the same clients, and – in all other columns.

    Args:
        groups: One run's results, per column of accuracies.
        columns: How many columns the table has.
        first: The place of the first of these columns.
    """
    cells = [points_text([one.baseline for one in some]) for some in groups]
    row = [BASELINE, *["–"] * (first - 1), *cells]
    return (*row, *["–"] * (columns - len(row)))


def bytes_per_round(results: Sequence[StreamResult]) -> str:
    """Megabytes of a client in a round."""
    return f"{results[0].bytes / 1e6:.3f} MB"


def above(results: StreamResults, says: str, one: str, other: str) -> StudyFinding:
    """The finding that clients of one run are above those of another.

    Args:
        says: The document's sentence.
        one: The label of the run that should be above.
        other: The label of the other.
    """
    a, b = accuracies_of(results[one]), accuracies_of(results[other])
    return ahead_finding(says, f"{mean_text(a)} and {mean_text(b)}", a, b)


def above_if_learnt(results: StreamResults, says: str, one: str, other: str) -> StudyFinding:
    """``above``, or that it is not testable where neither run is above twice its baseline.

    Args:
        says: The document's sentence.
        one: The label of the run that should be above.
        other: The label of the other.
    """
    reason = untestable(results, one, other)
    return StudyFinding(says, reason, None) if reason else above(results, says, one, other)


def untestable(results: StreamResults, *labels: str) -> str:
    """Why runs say nothing of a claim: none of them has learnt; empty if one has."""
    if any(fmean(accuracies_of(results[one])) > 2 * fmean(r.baseline for r in results[one]) for one in labels):
        return ""
    ours = " and ".join(mean_text(accuracies_of(results[one])) for one in labels)
    return f"not testable here: {ours}, at most twice what always answering one class gives."


def forgets_less(results: StreamResults, says: str, one: str, other: str) -> StudyFinding:
    """The finding that one run forgets less than another.

    Args:
        says: The document's sentence.
        one: The label of the run that should forget less.
        other: The label of the other.
    """
    a, b = forgetting_of(results[one]), forgetting_of(results[other])
    return ahead_finding(says, f"forgetting {mean_text(a)} and {mean_text(b)}", b, a)


def plain_results(results: StreamResults) -> dict[str, Any]:
    """The numbers behind tables as plain values."""
    return {label: [vars(one) for one in some] for label, some in results.items()}


def setting_sentence(seeds: int, images: str, data: str = DATA, where: str = "the test set") -> str:
    """What the runs of a study have in common.

    Args:
        images: Which images clients have, in words.
        where: What clients' models are measured on, in words.
    """
    widths = ", ".join(map(str, WIDTHS[data]))
    return (
        f"{CLIENTS} clients, {images}, of which {100 * COMMUNAL:.0f} % of the training images are communal; ResNet-8 "
        f"with widths {widths}; {EPOCHS[data]} local and {DISTILLATION_EPOCHS[data]} distillation epochs in a round, "
        f"{ROUNDS[data]} rounds per task of a stream, {PLAIN_ROUNDS[data]} rounds without; clients' models on {where}, "
        f"mean ± standard deviation over {seeds} seeds. Bytes are what a client sends and gets in a round."
    )
