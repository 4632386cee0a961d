"""The studies of FedRCIL beside its document: multi-losses without tasks, and what is kept and forgotten in a stream.

The document's baselines are not incremental: its FedAvg and FLD see all classes at once. Here fine-tuning, FedAvg with
exemplars and joint training run on the same stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from fedloom.reproduce.fedrcil_study_runs import (
    DATA,
    DISTILLATION_EPOCHS,
    EPOCHS,
    EXEMPLARS,
    FEW_IMAGES,
    IID,
    IMAGES,
    MANY_EXEMPLARS,
    METHOD,
    SKEWED_DATA,
    TASKS,
    StreamResults,
    above,
    above_if_learnt,
    accuracies_of,
    baseline_row,
    bytes_per_round,
    forgets_less,
    forgetting_of,
    plain_results,
    points_text,
    setting_sentence,
    stream_member,
    stream_results,
    stream_task,
    untestable,
)
from fedloom.reproduce.published_tables import published
from fedloom.reproduce.study import (
    Study,
    StudyFinding,
    StudyOutcome,
    StudyRequest,
    StudyTable,
    mean_text,
)
from fedloom.runs.plans.members import Member

FINE_TUNING, REHEARSAL, JOINT = "fine-tuning (FedAvg)", "FedAvg with exemplars", "joint training"
STREAM: Mapping[str, dict[str, Any]] = {
    "m_u 0": {"m_u": 0.0},
    "m_u 0.25, b 4": {"m_u": 0.25},
    "m_u 0.5, b 4": {},
    "m_u 1, b 4": {"m_u": 1.0},
    "m_u 0.5, b 1": {"buffer": 1},
    "m_u 0.5, b 2": {"buffer": 2},
    "m_u 0.5, b 3": {"buffer": 3},
    "m_u 0, labels": {"m_u": 0.0, "exemplar_epochs": EPOCHS[DATA]},
    "m_u 0.5, b 4, labels": {"exemplar_epochs": EPOCHS[DATA]},
    "m_u 0.5, b 1, labels": {"exemplar_epochs": EPOCHS[DATA], "buffer": 1},
    "m_u 0.5, b 4, labels, MSE": {"exemplar_epochs": EPOCHS[DATA], "distance": "mse"},
}
"""The runs of FedRCIL on the stream; ``labels``: the passes of the authors' code, ``MSE``: their distillation."""
MULTI_LOSS: Mapping[str, dict[str, Any]] = {
    "isolated": {"name": "local"},
    "FedAvg": {"name": "fedavg"},
    "FLD, class means": {"name": "fld", "common": False},
    "FLD, penultimate": {"name": "fld", "layer": "penultimate"},
    "FLD": {"name": "fld"},
    "m_A": {"name": "fld", "multi_loss": "A"},
    "m_B": {"name": "fld", "multi_loss": "B"},
    "m_C": {"name": "fld", "multi_loss": "C"},
}
SKEWS = (0.25, 1.0, IID)
"""The concentrations beta that the document and this study have in common."""
SKEWED = {"epochs": DISTILLATION_EPOCHS[SKEWED_DATA]}
PRINTED, LABELLED = "FedRCIL, as printed", "FedRCIL"
SKEW_METHODS: Mapping[str, dict[str, Any]] = {
    "FLD": {"name": "fld", **SKEWED},
    "m_B": {"name": "fld", "multi_loss": "B", **SKEWED},
    PRINTED: {**METHOD, "exemplars": MANY_EXEMPLARS, **SKEWED},
    LABELLED: {**METHOD, "exemplars": MANY_EXEMPLARS, "exemplar_epochs": 1, **SKEWED},
}


def stream_members(_: StudyRequest) -> list[Member]:
    """The runs of ``fedrcil-stream``."""
    task = stream_task()
    baselines = [
        stream_member(FINE_TUNING, task, {"name": "fedavg"}),
        stream_member(REHEARSAL, task, {"name": "fedavgexemplars", "exemplars": EXEMPLARS}),
        stream_member(JOINT, stream_task(joint=True), {"name": "centralised"}),
    ]
    return baselines + [stream_member(label, task, {**METHOD, **one}) for label, one in STREAM.items()]


def multi_loss_members(_: StudyRequest) -> list[Member]:
    """The runs of ``fedrcil-multiloss``: all classes from the beginning."""
    task, distils = stream_task(stream=False), {"epochs": DISTILLATION_EPOCHS[DATA]}
    return [
        stream_member(label, task, one | (distils if one["name"] == "fld" else {})) for label, one in MULTI_LOSS.items()
    ]


def beta_text(beta: float) -> str:
    """A concentration as tables and labels show it."""
    return "IID" if beta == IID else f"beta {beta:g}"


def skew_members(_: StudyRequest) -> list[Member]:
    """The runs of ``fedrcil-beta``."""
    return [
        stream_member(f"{beta_text(beta)}, {label}", stream_task(beta, stream=method["name"] == "fedrcil"), method)
        for beta in SKEWS
        for label, method in SKEW_METHODS.items()
    ]


def stream_table(results: StreamResults) -> StudyTable:
    """Accuracy after each task, forgetting and bytes: a row per run, with the document's final accuracy."""
    rows, reported = [], published("fedrcil").tables["stream"]
    for label, some in results.items():
        after = [points_text([one.tasks[number] for one in some]) for number in range(TASKS)]
        rows.append((label, *after, points_text(forgetting_of(some)), bytes_per_round(some), reported.text(label)))
    tasks = tuple(f"task {number}" for number in range(1, TASKS + 1))
    columns = ("run", *tasks, "forgetting", "bytes per round", "document (task 5)")
    rows.append(baseline_row([results[FINE_TUNING]], len(columns), first=TASKS))
    return StudyTable("Accuracy on all classes so far after each task (%)", columns, tuple(rows))


def stream_findings(results: StreamResults) -> list[StudyFinding]:
    """What the document says of contrast and buffer (T8), and how the baselines that it lacks compare."""
    none, usual, one, more = "m_u 0", "m_u 0.5, b 4", "m_u 0.5, b 1", "m_u 1, b 4"
    return [
        forgets_less(results, "T8: m_u = 0.5 forgets less than m_u = 0.", usual, none),
        above(results, "m_u = 0.5 is above m_u = 0.", usual, none),
        above(results, "m_u = 0.5 is above m_u = 1.", usual, more),
        above(results, "T8: a buffer of 4 is above a buffer of 1.", usual, one),
        above(results, "Control: FedRCIL is above fine-tuning.", usual, FINE_TUNING),
        above(results, "Control: FedRCIL is above FedAvg with exemplars.", usual, REHEARSAL),
        above(
            results,
            "Control: with exemplars' labels, m_u = 0.5 is above m_u = 0.",
            f"{usual}, labels",
            f"{none}, labels",
        ),
        above(results, "Control: with exemplars' labels, FedRCIL is above FedAvg.", f"{usual}, labels", REHEARSAL),
        above(
            results,
            "T8: with exemplars' labels, a buffer of 4 is above a buffer of 1.",
            f"{usual}, labels",
            f"{one}, labels",
        ),
        above(results, "Control: the authors' MSE is above norms.", f"{usual}, labels, MSE", f"{usual}, labels"),
        above(results, "Control: exemplars' labels alone keep more than the contrast alone.", f"{none}, labels", usual),
        above(results, "Joint training is above FedRCIL.", JOINT, usual),
    ]


def multi_loss_table(results: StreamResults) -> StudyTable:
    """Accuracy and bytes of each method, with the document's accuracy."""
    reported = published("fedrcil").tables["multi_loss"]
    rows: list[tuple[str, ...]] = [
        (label, points_text(accuracies_of(some)), bytes_per_round(some), reported.text(label))
        for label, some in results.items()
    ]
    columns = ("method", "ours", "bytes per round", "document")
    rows.append(baseline_row([results["isolated"]], len(columns)))
    return StudyTable("Accuracy of clients' models (%)", columns, tuple(rows))


def multi_loss_findings(results: StreamResults) -> list[StudyFinding]:
    """What the document says of multi-losses (T6), and whether distillation sends less than FedAvg."""
    found = [
        above(results, "T6: m_B is above plain FLD.", "m_B", "FLD"),
        above(results, "T6: plain FLD is above isolated clients.", "FLD", "isolated"),
        above(results, "m_B is above m_C.", "m_B", "m_C"),
        above(results, "m_C is above m_A.", "m_C", "m_A"),
        above(results, "m_A is above plain FLD.", "m_A", "FLD"),
        above(results, "m_B is above FedAvg.", "m_B", "FedAvg"),
        above(results, "FLD on outputs is above FLD on the penultimate layer.", "FLD", "FLD, penultimate"),
        above(results, "FLD with a common set is above FLD with class means.", "FLD", "FLD, class means"),
        above(results, "Isolated clients are above FLD with class means.", "isolated", "FLD, class means"),
        above(results, "Isolated clients are above FLD on the penultimate layer.", "isolated", "FLD, penultimate"),
    ]
    for label in ("FLD", "m_B"):
        ours, theirs = results[label][0].bytes, results["FedAvg"][0].bytes
        text = f"{bytes_per_round(results[label])} and {bytes_per_round(results['FedAvg'])} per client and round."
        found.append(StudyFinding(f"{label} sends fewer bytes per round than FedAvg.", text, ours < theirs))
    return found


def skew_table(results: StreamResults) -> StudyTable:
    """A row per method: our accuracy and the document's for each beta."""
    rows, reported = [], published("fedrcil").tables["beta"]
    for label in SKEW_METHODS:
        ours = [points_text(accuracies_of(results[f"{beta_text(beta)}, {label}"])) for beta in SKEWS]
        sent = bytes_per_round(results[f"{beta_text(min(SKEWS))}, {label}"])
        said = [reported.text("IID" if beta == IID else f"{beta:g}", label) for beta in SKEWS]
        rows.append((label, *ours, sent, *("–" if label == PRINTED else one for one in said)))
    betas = [beta_text(beta) for beta in SKEWS]
    columns = ("method", *betas, "bytes per round", *(f"document, {beta}" for beta in betas))
    rows.append(baseline_row([results[f"{beta}, FLD"] for beta in betas], len(columns)))
    return StudyTable("Accuracy of clients' models (%)", columns, tuple(rows))


def skew_findings(results: StreamResults) -> list[StudyFinding]:
    """What the document says of clients whose classes differ."""
    low, high, iid = map(beta_text, SKEWS)
    found = [
        above_if_learnt(results, f"{label}: accuracy rises with beta.", f"{high}, {label}", f"{low}, {label}")
        for label in SKEW_METHODS
    ]
    found += [
        above_if_learnt(
            results,
            f"Control, {one}: exemplars' labels are above FedRCIL as printed.",
            f"{one}, {LABELLED}",
            f"{one}, {PRINTED}",
        )
        for one in (low, high, iid)
    ]
    found += [
        above_if_learnt(results, f"{one}: m_B is above FLD.", f"{one}, m_B", f"{one}, FLD") for one in (low, high, iid)
    ]
    for label in (LABELLED, PRINTED, "m_B"):
        lost = [
            a - b
            for a, b in zip(
                accuracies_of(results[f"{iid}, {label}"]), accuracies_of(results[f"{high}, {label}"]), strict=True
            )
        ]
        says = f"{label}: about ten points (8 to 12) are lost from IID to beta 1."
        reason = untestable(results, f"{iid}, {label}", f"{high}, {label}")
        best = accuracies_of(results[f"{iid}, {label}"])
        if not reason and fmean(best) < 0.12:  # also a fall to nothing would be less than twelve points
            reason = (
                f"not testable here: {mean_text(best)} where clients do not differ is too little to lose that much."
            )
        holds = None if reason else 0.08 <= fmean(lost) <= 0.12
        found.append(StudyFinding(says, reason or f"{mean_text(lost)} points.", holds))
    return found


def _run_stream(request: StudyRequest) -> StudyOutcome:
    results = stream_results(request, stream_members(request))
    note = setting_sentence(request.seeds, f"{IMAGES} images of MNIST each", where="their own test parts")
    note += f" At most {EXEMPLARS} exemplars."
    title = "FedRCIL: what a stream of classes leaves"
    table, found = stream_table(results), stream_findings(results)
    return StudyOutcome("fedrcil-stream", title, (table,), tuple(found), (note,), plain_results(results))


def _run_multi_loss(request: StudyRequest) -> StudyOutcome:
    results = stream_results(request, multi_loss_members(request))
    note = setting_sentence(request.seeds, f"{FEW_IMAGES} images of MNIST each") + " All classes from the beginning."
    title = "FedRCIL: multi-losses without tasks"
    table, found = multi_loss_table(results), multi_loss_findings(results)
    return StudyOutcome("fedrcil-multiloss", title, (table,), tuple(found), (note,), plain_results(results))


def _run_skew(request: StudyRequest) -> StudyOutcome:
    results = stream_results(request, skew_members(request))
    note = setting_sentence(request.seeds, "all images of CIFAR-100, divided by Dir(beta)", SKEWED_DATA)
    note += f" FedRCIL is on the stream, with at most {MANY_EXEMPLARS} exemplars."
    title = "FedRCIL: clients whose classes differ"
    table, found = skew_table(results), skew_findings(results)
    return StudyOutcome("fedrcil-beta", title, (table,), tuple(found), (note,), plain_results(results))


STUDIES = (
    Study(
        "fedrcil-stream",
        "FedRCIL on MNIST in 5 tasks: contrast, buffer, exemplars, forgetting, and baselines (42 runs)",
        _run_stream,
        stream_members,
    ),
    Study(
        "fedrcil-multiloss",
        "multi-scale distillation m_A, m_B, m_C beside FLD, FedAvg and isolated clients, on MNIST (24 runs)",
        _run_multi_loss,
        multi_loss_members,
    ),
    Study(
        "fedrcil-beta",
        "FLD, multi-scale FLD and FedRCIL where clients' classes differ, on CIFAR-100 (36 runs)",
        _run_skew,
        skew_members,
    ),
)
