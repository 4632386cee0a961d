"""What fewer bytes cost: accuracy against the bytes that clients send, with every codec, on CIFAR-10.

FedAvg with 20 clients that differ, four in a round, and a small LeNet (83,126 parameters), so that a run takes
some seconds. Every codec has the same rounds: its curve says how far it came, and what that cost. The document's
filters are tried as well; they send as many bytes as plain updates do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from fedloom.plotting.curves import CurvePanel, MethodCurve, curves_figure
from fedloom.plotting.style import save_figure
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

CLIENTS, ALPHA, PER_ROUND, ROUNDS, STEPS = 20, 1.0, 4, 30, 10
PLAIN = "no codec"
QSGD = {"name": "qsgd", "bits": 4}
CODECS: dict[str, list[dict[str, Any]]] = {
    PLAIN: [],
    "halfprecision": [{"name": "halfprecision"}],
    "qsgd 4 bits": [QSGD],
    "qsgd 2 bits": [{"name": "qsgd", "bits": 2}],
    "sign": [{"name": "sign"}],
    "topk 10 %": [{"name": "topk", "fraction": 0.1}],
    "topk 1 %": [{"name": "topk", "fraction": 0.01}],
    "topk 10 %, qsgd": [{"name": "topk", "fraction": 0.1}, QSGD],
    "randomk 10 %": [{"name": "randomk", "fraction": 0.1}],
    "sketch 25 %": [{"name": "sketch", "fraction": 0.25}],
    "sketch 25 %, qsgd": [{"name": "sketch", "fraction": 0.25}, QSGD],
    "lowrank 4": [{"name": "lowrank", "rank": 4}],
    "randommask 25 %": [{"name": "randommask", "fraction": 0.25}],
    "selectivesgd 10 %": [{"name": "selectivesgd", "fraction": 0.1}],
    "cmfl 0.5": [{"name": "cmfl", "threshold": 0.5}],
}
"""The codecs that are compared, by the names of their curves."""
FILTERS: dict[str, list[dict[str, Any]]] = {
    "percentile 70": [{"name": "percentile", "percentile": 70}],
    "svt": [{"name": "svt"}],
    "svt, gamma 0.01": [{"name": "svt", "gamma": 0.01}],
    "svt 2.0.16": [{"name": "svt", "semantics": "2.0.16"}],
}
"""The document's filters; 2.0.16 is what its platform did."""
LEARNS = ("percentile 70", "svt 2.0.16")
"""Filters that let enough through to learn from."""
SCORE = "global_model/global_test/accuracy"
FIGURE = "accuracy_against_bytes.svg"


def _members(_: StudyRequest) -> list[Member]:
    return [Member(label, folder_name(label), _setting(steps)) for label, steps in (CODECS | FILTERS).items()]


def _setting(steps: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "task": {
            "name": "cifar10",
            "clients": CLIENTS,
            "partition": {"name": "dirichlet", "alpha": ALPHA},
            "model": "lenet-small",
            "test_share": 0.02,
        },
        "method": {"name": "fedavg"},
        "local": {"steps": STEPS, "batch_size": 32, "lr": 0.05, "momentum": 0.9},
        "selection": {"number": PER_ROUND},
        "rounds": ROUNDS,
        "eval_every": 5,
        "checkpoint_every": ROUNDS,
        "channel": steps,
    }


def _run(request: StudyRequest) -> StudyOutcome:
    histories = request.run(_members(request))
    values = {label: [history.series(SCORE)[1][-1] for history in runs] for label, runs in histories.items()}
    sent = {label: [history.total("bytes_up") for history in runs] for label, runs in histories.items()}
    request.out.mkdir(parents=True, exist_ok=True)
    lines = [codec_curve(label, place, histories[label]) for place, label in enumerate(CODECS)]
    note = (
        f"FedAvg on CIFAR-10, {CLIENTS} clients, {ROUNDS} rounds; mean and standard deviation of {request.seeds} seeds"
    )
    panel = CurvePanel("Accuracy against bytes sent up", note, "uplink", tuple(lines))
    save_figure(curves_figure([panel], list(CODECS)), request.out / FIGURE)
    title = "Accuracy against bytes: every codec on CIFAR-10"
    said = (
        f"{note}. {PER_ROUND} clients in a round, {STEPS} local steps; accuracy of the shared model on the test set. "
        f"The curves are in {FIGURE}."
    )
    table = codec_table(values, sent)
    plain: dict[str, Any] = {"accuracy": values, "bytes_up": sent}
    return StudyOutcome("codecs", title, (table,), tuple(findings(values, sent)), (said,), plain)


def codec_curve(label: str, place: int, runs: Sequence[History]) -> MethodCurve:
    """The mean accuracy of some runs along the megabytes that their clients have sent so far."""
    rounds, scores = runs[0].series(SCORE)[0], np.array([history.series(SCORE)[1] for history in runs])
    sent = [
        [sum(r["bytes_up"] for r in run.records if r["round"] <= number) / 1e6 for number in rounds] for run in runs
    ]
    band = scores.std(0, ddof=1) if len(runs) > 1 else None
    return MethodCurve(label, place, np.array(sent).mean(0), scores.mean(0), band, faint=True)


def codec_table(values: Mapping[str, Sequence[float]], sent: Mapping[str, Sequence[float]]) -> StudyTable:
    """A row per codec: accuracy in points, megabytes sent up, and how many times fewer these are than without one."""
    rows = [
        (
            label,
            mean_text(values[label]),
            f"{fmean(sent[label]) / 1e6:.2f}",
            f"{fmean(sent[PLAIN]) / fmean(sent[label]):.1f}",
        )
        for label in values
    ]
    return StudyTable("accuracy (%) and bytes", ("codec", "accuracy", "MB up", "times fewer"), tuple(rows))


def findings(values: Mapping[str, Sequence[float]], sent: Mapping[str, Sequence[float]]) -> list[StudyFinding]:
    """What the papers lead one to expect, and what holds here."""
    plain, found = values[PLAIN], []
    for label in (label for label in values if label in CODECS and label != PLAIN):
        fewer = fmean(sent[PLAIN]) / fmean(sent[label])
        says = f"{label} sends {fewer:.1f} times fewer bytes and is at most 3 points below plain updates."
        ours = f"{mean_text(values[label])} and {mean_text(plain)}"
        found.append(ahead_finding(says, ours, values[label], plain, by=-0.03))
    for label in (label for label in values if label in FILTERS):
        if label in LEARNS:
            says = f"Models learn through {label}: it is at most 10 points below plain updates."
            ours = f"{mean_text(values[label])} and {mean_text(plain)}"
            found.append(ahead_finding(says, ours, values[label], plain, by=-0.1))
            continue
        says = f"Hardly anything is learnt through {label}: it is at least 10 points below plain updates."
        ours = f"{mean_text(plain)} and {mean_text(values[label])}"
        found.append(ahead_finding(says, ours, plain, values[label], by=0.1))
    return found


STUDIES = (
    Study("codecs", "accuracy against bytes with every codec, on CIFAR-10 (57 runs, 13 minutes)", _run, _members),
)
