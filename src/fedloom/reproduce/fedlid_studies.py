"""The studies of FedLID beside its document: a server with and without labels, scarce labels at clients, pre-training.

The document has ten clients of CIFAR-100 with a ResNet-18 that starts from ImageNet, and a server with Tiny-ImageNet;
10 rounds of 10 epochs at clients and 60 at the server. Here the server's images are CIFAR-10, the network is a
ResNet-8 of widths 8, 16, 32 whose stem divides the image by four, and a run has 8 rounds. "IID" is Dirichlet(1) in
the document, too. Its rows of FedSimCLR and FedCA look quoted from another paper; here all rows are runs of one
setting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from fedloom.reproduce.published_tables import PublishedTable, published
from fedloom.reproduce.study import (
    Study,
    StudyFinding,
    StudyOutcome,
    StudyRequest,
    StudyTable,
    ahead_finding,
    mean_text,
)
from fedloom.runs.plans.plan import Member, folder_name
from fedloom.runs.results.history import History

CLIENTS, ROUNDS, EPOCHS, VIEW_EPOCHS, SERVER_EPOCHS, PRETRAINING_EPOCHS = 10, 8, 4, 2, 2, 8
SCORE = "client_model/global_test/accuracy/mean"
SKEWS = {"IID": 1.0, "non-IID": 0.5}
"""The document's words, and the concentrations that it means by them."""
SHARES = (0.2, 0.6, 1.0)
FEDAVG, FEDLID, FEDSIMCLR, FEDCA = "FedAvg", "FedLID", "FedSimCLR + probe", "FedCA + probe"
SERVER_METHOD = {"name": "fedlid", "server_epochs": SERVER_EPOCHS, "server_batch": 128, "server_lr": 0.03}
SUPERVISED = {**SERVER_METHOD, "server_loss": "supervised"}
METHODS: dict[str, dict[str, Any]] = {
    FEDAVG: {"name": "fedavg"},
    FEDLID: SERVER_METHOD,
    FEDSIMCLR: {"name": "fedsimclr"},
    FEDCA: {"name": "fedca", "base_epochs": 4},
}
Results = Mapping[str, Sequence[History]]


def lid_member(label: str, method: Mapping[str, Any], skew: str, more: Mapping[str, Any] | None = None) -> Member:
    """A run of a method.

    Args:
        label: What tables call it.
        method: The section ``method`` of its config.
        skew: How classes are divided, in the document's words.
        more: Other settings of the task.
    """
    without_labels = method["name"] in ("fedsimclr", "fedca")
    task: dict[str, Any] = {
        "name": "cifar100",
        "clients": CLIENTS,
        "partition": {"name": "dirichlet", "alpha": SKEWS[skew]},
        "test_share": 0.5,
        "model": "resnet8",
        "model_options": {"widths": [8, 16, 32], "stem_stride": 4},
        **(more or {}),
    }
    if method["name"] == "fedlid":
        task["server_set"] = {"data": "cifar10", "share": 0.15}
    if method["name"] == "fedca":
        task["communal"] = {"share": 0.1, "labelled": False}
    epochs, lr = (VIEW_EPOCHS, 0.05) if without_labels else (EPOCHS, 0.1)
    values: dict[str, Any] = {
        "task": task,
        "method": dict(method),
        "local": {"epochs": epochs, "batch_size": 32, "lr": lr, "momentum": 0.9},
        "prediction": ["linearprobe"] if without_labels else [],
        "execution": "vectorised",
        "rounds": ROUNDS,
        "eval_every": ROUNDS,
        "checkpoint_every": ROUNDS,
        "clients_on_global": True,
    }
    label = f"{skew}, {label}"
    return Member(label, folder_name(label), values)


def server_members(_: StudyRequest) -> list[Member]:
    """The runs of ``fedlid-server``."""
    methods = {FEDAVG: METHODS[FEDAVG]}
    methods |= {f"supervised {100 * share:.0f} %": {**SUPERVISED, "share": share} for share in SHARES}
    methods[FEDLID] = METHODS[FEDLID]
    return [lid_member(label, method, skew) for skew in SKEWS for label, method in methods.items()]


def label_members(_: StudyRequest) -> list[Member]:
    """The runs of ``fedlid-labels``."""
    members = [lid_member(label, METHODS[label], skew) for skew in SKEWS for label in (FEDSIMCLR, FEDCA)]
    for skew in SKEWS:
        for label in (FEDAVG, FEDCA, FEDLID):
            members.append(lid_member(f"10 % labels, {label}", METHODS[label], skew, {"label_share": 0.1}))
    return members


def pretraining_member() -> Member:
    """A network whose body learnt from the traffic signs of GTSRB, by SimCLR at a server that is alone with them."""
    method = {**SERVER_METHOD, "server_epochs": PRETRAINING_EPOCHS}
    made = lid_member("pre-training", method, "IID")
    task = {**made.values["task"], "server_set": {"data": "gtsrb", "share": 0.25}}
    idle = {**made.values["local"], "epochs": 0}
    values = {**made.values, "task": task, "local": idle, "rounds": 1, "eval_every": 0, "checkpoint_every": 1}
    return Member("pre-training", folder_name("pre-training"), values)


def pretrained_members(request: StudyRequest) -> list[Member]:
    """The runs of ``fedlid-pretraining``, which start from the same network or from random ones."""
    methods = {FEDAVG: METHODS[FEDAVG], "supervised 100 %": SUPERVISED, FEDLID: METHODS[FEDLID]}
    start = str(pretraining_member().folder(request.out, 0))
    members = []
    for label, method in methods.items():
        plain, started = (lid_member(f"{label}, {how}", method, "non-IID") for how in ("random", "pre-trained"))
        members += [plain, Member(started.label, started.folder_name, {**started.values, "start_from": start})]
    return members


def accuracies(histories: Sequence[History]) -> list[float]:
    """The mean accuracy of clients' models on the test set, of each seed."""
    return [float(history.records[-1]["metrics"][SCORE]) for history in histories]


def bytes_of(histories: Sequence[History]) -> str:
    """What a client sends and gets in a round, on average; a round has all clients."""
    sent = fmean(history.total("bytes_sent") / history.records[-1]["round"] for history in histories) / CLIENTS
    return f"{sent / 1e6:.3f} MB"


def lid_table(results: Results, reported: PublishedTable) -> StudyTable:
    """A row per method: our accuracies under both skews, the document's, and bytes.

    Args:
        results: What the runs measured, by skew and label.
        reported: What the document prints: a row per label, a column per skew.
    """
    labels = dict.fromkeys(label.partition(", ")[2] for label in results)
    rows = []
    for label in labels:
        ours = [mean_text(accuracies(results[f"{skew}, {label}"])) for skew in SKEWS]
        rows.append(
            (label, *ours, *(reported.text(label, skew) for skew in SKEWS), bytes_of(results[f"non-IID, {label}"]))
        )
    columns = ("method", "IID", "non-IID", "document, IID", "document, non-IID", "per client and round")
    return StudyTable(
        "mean accuracy of clients' models on the test set (%), and bytes up and down", columns, tuple(rows)
    )


def above(results: Results, says: str, one: str, other: str) -> StudyFinding:
    """The finding that one run is above another.

    Args:
        says: The sentence.
        one: The label of the run that should be above.
        other: The label of the other.
    """
    a, b = accuracies(results[one]), accuracies(results[other])
    return ahead_finding(says, f"{mean_text(a)} and {mean_text(b)}", a, b)


def server_findings(results: Results) -> list[StudyFinding]:
    """What the document says of the server, the control that it lacks, and what holds here."""
    found = []
    for skew in SKEWS:
        for share in SHARES:
            label = f"supervised {100 * share:.0f} %"
            says = f"{skew}: a SimCLR server is above a server with {100 * share:.0f} % of its labels."
            found.append(above(results, says, f"{skew}, {FEDLID}", f"{skew}, {label}"))
        says = f"Control, {skew}: a SimCLR server is above no server training at all (FedAvg)."
        found.append(above(results, says, f"{skew}, {FEDLID}", f"{skew}, {FEDAVG}"))
    skewed, equal = (_gain(results, skew, "supervised 20 %") for skew in ("non-IID", "IID"))
    says = "The gain over a supervised server is larger when classes are skewed (20 % of the labels)."
    found.append(ahead_finding(says, f"{mean_text(skewed)} and {mean_text(equal)}", skewed, equal))
    says = "FedLID is better non-IID than IID (the document's own anomaly)."
    found.append(above(results, says, f"non-IID, {FEDLID}", f"IID, {FEDLID}"))
    return found


def _gain(results: Results, skew: str, other: str) -> list[float]:
    """How far FedLID is above another run, seed by seed."""
    ours, theirs = (accuracies(results[f"{skew}, {label}"]) for label in (FEDLID, other))
    return [a - b for a, b in zip(ours, theirs, strict=True)]


def label_findings(results: Results) -> list[StudyFinding]:
    """What the document says of scarce labels, and what holds here."""
    found = []
    for skew in SKEWS:
        few = f"{skew}, 10 % labels"
        found += [
            above(results, f"{skew}: FedCA is above FedSimCLR.", f"{skew}, {FEDCA}", f"{skew}, {FEDSIMCLR}"),
            above(results, f"{few}: FedLID is above FedCA.", f"{few}, {FEDLID}", f"{few}, {FEDCA}"),
            above(results, f"Control, {few}: FedLID is above FedAvg.", f"{few}, {FEDLID}", f"{few}, {FEDAVG}"),
        ]
    return found


def pretraining_findings(results: Results) -> list[StudyFinding]:
    """Whether the comparison depends on where networks start, which the document does not vary."""
    found = []
    for how in ("random", "pre-trained"):
        for label in ("supervised 100 %", FEDAVG):
            says = f"{how} start: a SimCLR server is above {label}."
            found.append(above(results, says, f"non-IID, {FEDLID}, {how}", f"non-IID, {label}, {how}"))
    says = "FedLID gains from a pre-trained start."
    found.append(above(results, says, f"non-IID, {FEDLID}, pre-trained", f"non-IID, {FEDLID}, random"))
    return found


def _outcome(
    name: str, title: str, request: StudyRequest, results: Results, table: StudyTable, found: list[StudyFinding]
) -> StudyOutcome:
    note = (
        f"CIFAR-100, {CLIENTS} clients with 500 images each on average; the server has 2,400 images of CIFAR-10; "
        f"ResNet-8 with widths 8, 16, 32; {ROUNDS} rounds of {EPOCHS} epochs ({VIEW_EPOCHS} without labels) and "
        f"{SERVER_EPOCHS} epochs of the server; mean ± standard deviation over {request.seeds} seeds."
    )
    values = {label: accuracies(histories) for label, histories in results.items()}
    return StudyOutcome(name, title, (table,), tuple(found), (note,), values)


def _run_server(request: StudyRequest) -> StudyOutcome:
    results = request.run(server_members(request))
    table, found = lid_table(results, published("fedlid").tables["server"]), server_findings(results)
    return _outcome("fedlid-server", "FedLID: a server with and without labels", request, results, table, found)


def _run_labels(request: StudyRequest) -> StudyOutcome:
    results = request.run(label_members(request))
    table, found = lid_table(results, published("fedlid").tables["labels"]), label_findings(results)
    return _outcome("fedlid-labels", "FedLID: clients with few labels, or none", request, results, table, found)


def pretraining_table(results: Results) -> StudyTable:
    """A row per method: accuracies from both starts, and bytes."""
    rows = []
    for label in (FEDAVG, "supervised 100 %", FEDLID):
        some = [results[f"non-IID, {label}, {how}"] for how in ("random", "pre-trained")]
        rows.append((label, *(mean_text(accuracies(one)) for one in some), bytes_of(some[0])))
    columns = ("method", "random start", "pre-trained on GTSRB", "per client and round")
    return StudyTable("non-IID: mean accuracy of clients' models on the test set (%)", columns, tuple(rows))


def _run_pretraining(request: StudyRequest) -> StudyOutcome:
    StudyRequest(1, request.out, request.workers, settings=request.settings).run([pretraining_member()])
    results = request.run(pretrained_members(request))
    table, found = pretraining_table(results), pretraining_findings(results)
    title = "FedLID from random and from pre-trained networks"
    return _outcome("fedlid-pretraining", title, request, results, table, found)


STUDIES = (
    Study(
        "fedlid-server",
        "a server that trains without labels, with 20 to 100 % of them, or not at all, on CIFAR (30 runs)",
        _run_server,
        server_members,
    ),
    Study(
        "fedlid-labels",
        "FedLID, FedCA and FedSimCLR where clients have few labels, or none, on CIFAR (30 runs)",
        _run_labels,
        label_members,
    ),
    Study(
        "fedlid-pretraining",
        "FedLID from random and from pre-trained networks, on CIFAR and GTSRB (19 runs)",
        _run_pretraining,
        pretrained_members,
    ),
)
