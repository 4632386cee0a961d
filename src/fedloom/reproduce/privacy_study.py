"""What privacy costs: accuracy against epsilon on MNIST by writer, 539 clients, with a server that is trusted.

Each method runs with the noise that keeps its whole run to an epsilon (``privatemean``, clients or chains drawn by
Poisson sampling), and without noise and clipping. The clip norm is chosen for each method and epsilon on clients'
validation parts, with the first seed; test parts only report. That choice is not itself private: it would have to be
paid for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean
from typing import Any

from fedloom.plotting.privacy_cost import privacy_cost_figure
from fedloom.plotting.style import save_figure
from fedloom.privacy.accounting import noise_for
from fedloom.privacy.sampling import ClientSampling, PoissonChains, PoissonDraw
from fedloom.reproduce.study import (
    Study,
    StudyFinding,
    StudyOutcome,
    StudyRequest,
    StudyTable,
    ahead_finding,
    mean_text,
)
from fedloom.runs.plans.members import Member, folder_name
from fedloom.runs.results.history import History
from fedloom.runs.results.summaries import CLIENTS, GLOBAL

WRITERS, RATE, ROUNDS, DELTA = 539, 0.5, 30, 1e-4
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
CLIPS = (0.2, 0.6, 1.8)
VALIDATION = "client_model/own_validation/accuracy/mean"
PAIRS = [[client for client in (first, first + 1) if client < WRITERS] for first in range(0, WRITERS, 2)]
"""FedSeq's chains: neighbours in the order of writers, so that no client's data say who is in a chain."""
METHODS: dict[str, dict[str, Any]] = {
    "FedAvg": {"name": "fedavg"},
    "FedSeq": {"name": "fedseq", "chains": PAIRS},
    "FedRep": {"name": "fedrep"},
}


@dataclass(frozen=True)
class PrivateCase:
    """One run of the study; without an epsilon there is neither noise nor clipping."""

    method: str
    epsilon: float | None = None
    clip: float | None = None

    @property
    def label(self) -> str:
        """The case in words."""
        return f"{self.method} " + ("without noise" if self.epsilon is None else f"eps={self.epsilon:g} C={self.clip}")

    @property
    def aggregation(self) -> dict[str, Any]:
        """The settings of its aggregator.

        Clients and noise are seeded, so that the study can be repeated; the noise is what the epsilon of the case needs
        where nobody knows the seed.
        """
        if self.epsilon is None:
            return {"name": "mean"}
        noise = _noise(self.method == "FedSeq", self.epsilon)
        return {"name": "privatemean", "noise": noise, "clip": self.clip, "delta": DELTA, "seeded": True}

    @property
    def member(self) -> Member:
        """The run."""
        values: dict[str, Any] = {
            "task": {
                "name": "mnist-writers",
                "model": "mlp",
                "model_options": {"hidden": [16]},
                "valid_share": 0.15,
            },
            "method": METHODS[self.method],
            "local": {"lr": 0.1, "batch_size": 20},
            "rounds": ROUNDS,
            "weight_by": "uniform",
            "selection": {"name": "poisson", "rate": RATE},
            "aggregation": self.aggregation,
            "eval_every": ROUNDS,
            "checkpoint_every": ROUNDS,
        }
        return Member(self.label, folder_name(self.label), values)


@cache
def _noise(in_chains: bool, epsilon: float) -> float:
    sampling: ClientSampling = PoissonChains(RATE, len(PAIRS)) if in_chains else PoissonDraw(RATE, WRITERS)
    return noise_for(sampling, epsilon, ROUNDS, DELTA)


def _members(_: StudyRequest) -> list[Member]:
    """All runs with the first seed; the chosen ones have the other seeds too."""
    cases = [PrivateCase(method, epsilon, clip) for method in METHODS for epsilon in EPSILONS for clip in CLIPS]
    return [case.member for case in (*cases, *map(PrivateCase, METHODS))]


def _privacy(request: StudyRequest) -> StudyOutcome:
    first = replace(request, seeds=1).run(_members(request))
    chosen: dict[tuple[str, float | None], PrivateCase] = {
        (method, epsilon): max(
            (PrivateCase(method, epsilon, clip) for clip in CLIPS),
            key=lambda case: first[case.label][0].last(VALIDATION) or 0.0,
        )
        for method in METHODS
        for epsilon in EPSILONS
    }
    chosen |= {(method, None): PrivateCase(method) for method in METHODS}
    histories = request.run([case.member for case in chosen.values()])
    runs = {key: histories[case.label] for key, case in chosen.items()}
    values = {method: {e: _last(runs[method, e], CLIENTS) for e in (*EPSILONS, None)} for method in METHODS}
    request.out.mkdir(parents=True, exist_ok=True)
    figure = privacy_cost_figure(values, f"MNIST by writer: {WRITERS} clients, delta {DELTA:g}")
    save_figure(figure, request.out / "privacy.svg")
    tables = (
        _table("mean accuracy on clients' own test samples (%)", values),
        _table(
            "accuracy of the shared model on other writers (%)",
            {m: {e: _last(runs[m, e], GLOBAL) for e in (*EPSILONS, None)} for m in ("FedAvg", "FedSeq")},
        ),
        _settings_table(chosen),
    )
    note = (
        f"{WRITERS} writers, MLP 784-16-10 (12,730 parameters), {ROUNDS} rounds, a client or chain of two takes part "
        f"with probability {RATE:g}, delta {DELTA:g}; mean ± standard deviation over {request.seeds} seeds."
    )
    return StudyOutcome(
        "privacy-writers", "Accuracy against epsilon on MNIST by writer", tables, _findings(values), (note,), values
    )


def _last(histories: Sequence[History], metric: str) -> list[float]:
    return [float(history.last(metric) or 0.0) for history in histories]


def _table(title: str, values: Mapping[str, Mapping[float | None, Sequence[float]]]) -> StudyTable:
    rows = tuple((method, *(mean_text(some) for some in of.values())) for method, of in values.items())
    return StudyTable(title, ("method", *_columns()), rows)


def _settings_table(chosen: Mapping[tuple[str, float | None], PrivateCase]) -> StudyTable:
    def text(case: PrivateCase) -> str:
        return "–" if case.epsilon is None else f"{case.aggregation['noise']:g}, {case.clip:g}"

    rows = tuple((method, *(text(chosen[method, epsilon]) for epsilon in (*EPSILONS, None))) for method in METHODS)
    return StudyTable("noise multiplier and chosen clip norm", ("method", *_columns()), rows)


def _columns() -> tuple[str, ...]:
    return (*(f"ε = {epsilon:g}" for epsilon in EPSILONS), "without noise")


def _findings(values: Mapping[str, Mapping[float | None, Sequence[float]]]) -> tuple[StudyFinding, ...]:
    found = []
    for method, of in values.items():
        means = [fmean(of[epsilon]) for epsilon in EPSILONS]
        says = f"{method}: accuracy does not fall as epsilon grows."
        found.append(StudyFinding(says, f"{', '.join(f'{100 * m:.1f}' for m in means)}.", means == sorted(means)))
    for epsilon in (EPSILONS[0], EPSILONS[-1]):
        fedseq, fedavg = (
            [without - with_noise for without, with_noise in zip(values[m][None], values[m][epsilon], strict=True)]
            for m in ("FedSeq", "FedAvg")
        )
        says = f"Chains lose more than clients at epsilon {epsilon:g}: half as many rows, each moved by twice the norm."
        ours = f"FedSeq loses {mean_text(fedseq)}, FedAvg {mean_text(fedavg)}"
        found.append(ahead_finding(says, ours, fedseq, fedavg))
    return tuple(found)


STUDIES = (
    Study(
        "privacy-writers",
        "accuracy against epsilon for FedAvg, FedSeq and FedRep on MNIST by writer",
        _privacy,
        _members,
    ),
)
