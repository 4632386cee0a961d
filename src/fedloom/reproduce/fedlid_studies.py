"""The studies of FedLID beside its document: a server with and without labels, scarce labels at clients, pre-training.

``fedlid_study_runs.py`` has the runs. The document scores clients' models after local training; the model that they
received is beside it, and each claim is tested on both. Its rows of FedSimCLR and FedCA look quoted from another paper;
here all rows are runs of one setting. Learning rates are chosen on validation data, method by method (``tuning.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from fedloom.reproduce.fedlid_claims import (
    MEASURES,
    STARTS,
    SUPERVISED,
    label_findings,
    pretraining_findings,
    server_findings,
    values_of,
)
from fedloom.reproduce.fedlid_study_runs import (
    ALL_LABELS,
    CLIENTS,
    FEDAVG,
    FEDCA,
    FEDLID,
    FEDSIMCLR,
    FEW_LABELS,
    PRETRAINING_EPOCHS,
    ROUNDS,
    SERVER_DATA,
    SERVER_EPOCHS,
    SKEWS,
    STEPS,
    SUPERVISED_ALL,
    TUNED,
    VIEW_STEPS,
    Rates,
    Results,
    candidates_of,
    data_of,
    lid_member,
    lid_values,
    result_of,
    tuned_as,
)
from fedloom.reproduce.published_tables import PublishedTable, published
from fedloom.reproduce.study import (
    BASELINE,
    OWN_BASELINE,
    Study,
    StudyOutcome,
    StudyRequest,
    StudyTable,
    mean_text,
)
from fedloom.reproduce.tuning import TUNING_SEED, choose_rates, tuning_members
from fedloom.runs.plans.members import Member, folder_name

SERVER_CASES = tuple((method, ALL_LABELS) for method in (FEDAVG, *SUPERVISED, FEDLID))
LABEL_CASES = (
    *((method, ALL_LABELS) for method in (FEDSIMCLR, FEDCA, FEDLID)),
    *((method, FEW_LABELS) for method in (FEDAVG, FEDCA, FEDLID)),
)
START_CASES = tuple((method, ALL_LABELS) for method in (FEDAVG, SUPERVISED_ALL, FEDLID))
Cases = Sequence[tuple[str, str]]


def case_members(request: StudyRequest, cases: Cases, chosen: Mapping[str, str]) -> list[Member]:
    """The runs that a table reports.

    Args:
        request: How the study is run.
        cases: Methods, and how many labels their clients have.
        chosen: The learning rates of each, in words.
    """
    return [lid_member(request, method, skew, labels, chosen) for skew in SKEWS for method, labels in cases]


def start_members(request: StudyRequest, chosen: Mapping[str, str]) -> list[Member]:
    """The runs of ``fedlid-pretraining``, which start from the same network or from random ones."""
    start, members = str(pretraining_member(request).folder(request.out, 0)), []
    for method, labels in START_CASES:
        plain = lid_member(request, method, TUNED, labels, chosen)
        for how in STARTS:
            label = f"{method}, {how}"
            started = {"start_from": start} if how == "pre-trained" else {}
            members.append(Member(label, folder_name(label), {**plain.values, **started}))
    return members


def pretraining_member(request: StudyRequest) -> Member:
    """A network whose body learnt from the traffic signs of GTSRB, by SimCLR at a server that is alone with them."""
    values = lid_values(data_of(request), FEDLID, "IID", ALL_LABELS, Rates(0.1, 0.03))
    task = {**values["task"], "server_set": {"data": "gtsrb", "share": 0.25}}
    method = {**values["method"], "server_epochs": PRETRAINING_EPOCHS}
    idle = {**values["local"], "steps": 0}
    more = {"prediction": [], "rounds": 1, "eval_every": 0, "checkpoint_every": 1}
    return Member(
        "pre-training", folder_name("pre-training"), {**values, "task": task, "method": method, "local": idle, **more}
    )


def measure(request: StudyRequest, members: Sequence[Member], chosen: Mapping[str, str], cases: Cases) -> Results:
    """Run members and read what they measured.

    Args:
        request: How the study is run.
        members: The runs, those of each case beside each other in every group of as many as there are cases.
        chosen: The learning rates in words.
        cases: What the runs are of, by the end of their labels.
    """
    rates = {f"{labels}{method}": chosen[tuned_as(method, labels)] for method, labels in cases}
    found = {}
    for label, runs in request.run(members).items():
        words = rates.get(label.partition(", ")[2]) or rates[label.rpartition(", ")[0]]
        found[label] = [result_of(history, words) for history in runs]
    return found


def lid_table(results: Results, reported: PublishedTable | None) -> StudyTable:
    """A row per run: learning rates, both measures, the document's number, bytes; and what no model scores.

    Args:
        results: What the runs measured, by label.
        reported: What the document prints: a row per method, a column per skew.
    """
    rows = []
    for label, some in results.items():
        skew, _, method = label.partition(", ")
        received = "–" if method.endswith("probe") else mean_text(values_of(some, "received"))
        printed = reported.text(method, skew) if reported is not None else "–"
        sent = f"{fmean(values_of(some, 'bytes')) / 1e6:.3f} MB"
        rows.append((label, some[0].rates, mean_text(values_of(some, "after")), received, printed, sent))
    for skew in SKEWS if reported is not None else ("",):
        some = next(found for label, found in results.items() if label.startswith(skew))
        for words, name in ((BASELINE, "pooled"), (OWN_BASELINE, "own")):
            text = mean_text(values_of(some, name))
            rows.append((f"{skew}, {words}" if skew else words, "–", text, text, "–", "–"))
    columns = ("run", "learning rate", *MEASURES, "document", "per client and round")
    return StudyTable("accuracy on clients' own tests (%), and bytes up and down", columns, tuple(rows))


def _outcome(name: str, title: str, request: StudyRequest, results: Results, findings: Any) -> StudyOutcome:
    data = data_of(request)
    note = (
        f"{data} at {CLIENTS} clients, 1,000 images of {SERVER_DATA[data]} at the server; ResNet-8 with widths 8, 16, "
        f"32; {ROUNDS} rounds of {STEPS} steps ({VIEW_STEPS} without labels, each of two views) and {SERVER_EPOCHS} "
        f"epochs of the server; learning rates by validation parts of {TUNED} clients with seed {TUNING_SEED}; mean ± "
        f"standard deviation over {request.seeds} seeds."
    )
    table = lid_table(results, None if name == "fedlid-pretraining" else published("fedlid").tables[name[7:]])
    values = {label: [vars(one) for one in some] for label, some in results.items()}
    return StudyOutcome(name, title, (table,), tuple(findings(results)), (note,), values)


def _run_cases(name: str, title: str, request: StudyRequest, cases: Cases, findings: Any) -> StudyOutcome:
    chosen = choose_rates(request, candidates_of(request, cases))
    results = measure(request, case_members(request, cases, chosen), chosen, cases)
    return _outcome(name, title, request, results, findings)


def _run_server(request: StudyRequest) -> StudyOutcome:
    title = "FedLID: a server with and without labels"
    return _run_cases("fedlid-server", title, request, SERVER_CASES, server_findings)


def _run_labels(request: StudyRequest) -> StudyOutcome:
    title = "FedLID: clients with few labels, or none"
    return _run_cases("fedlid-labels", title, request, LABEL_CASES, label_findings)


def _run_pretraining(request: StudyRequest) -> StudyOutcome:
    chosen = choose_rates(request, candidates_of(request, START_CASES))
    replace(request, seeds=1).run([pretraining_member(request)])
    results = measure(request, start_members(request, chosen), chosen, START_CASES)
    title = "FedLID from random and from pre-trained networks"
    return _outcome("fedlid-pretraining", title, request, results, pretraining_findings)


def _all_members(request: StudyRequest, cases: Cases, reported: Sequence[Member]) -> list[Member]:
    return [*tuning_members(candidates_of(request, cases)), *reported]


STUDIES = (
    Study(
        "fedlid-server",
        "a server that trains without labels, with 20 to 100 % of them, or not at all, on CIFAR (45 runs)",
        _run_server,
        lambda request: _all_members(request, SERVER_CASES, case_members(request, SERVER_CASES, {})),
        data=tuple(SERVER_DATA),
    ),
    Study(
        "fedlid-labels",
        "FedLID, FedCA and FedSimCLR where clients have few labels, or none, on CIFAR (57 runs)",
        _run_labels,
        lambda request: _all_members(request, LABEL_CASES, case_members(request, LABEL_CASES, {})),
        data=tuple(SERVER_DATA),
    ),
    Study(
        "fedlid-pretraining",
        "FedLID from random and from pre-trained networks, on CIFAR and GTSRB (34 runs)",
        _run_pretraining,
        lambda request: [
            *_all_members(request, START_CASES, start_members(request, {})),
            pretraining_member(request),
        ],
        data=tuple(SERVER_DATA),
    ),
)
