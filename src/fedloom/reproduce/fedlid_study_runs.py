"""The runs of FedLID's studies: methods, grids of learning rates, and what is measured.

The document has ten clients of CIFAR-100 with a ResNet-18 that starts from ImageNet, and a server with Tiny-ImageNet;
10 rounds of 10 epochs at clients and 60 at the server. Here the network is a ResNet-8 of widths 8, 16, 32 whose stem
divides the image by four, and clients have CIFAR-10 and the server CIFAR-100, as there the server's images are of more
classes: with 100 classes at clients, so little training stays near chance, and no claim can be tested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedloom.reproduce.study import StudyRequest, baseline_score
from fedloom.reproduce.tuning import Candidates
from fedloom.runs.plans.members import Member, folder_name
from fedloom.runs.results.history import History

CLIENTS, ROUNDS, SERVER_EPOCHS, PRETRAINING_EPOCHS = 10, 4, 2, 8
STEPS, VIEW_STEPS = 20, 10
"""Local steps in a round, with labels and without: there each step trains on two views of its images."""
SERVER_DATA = {"cifar10": "cifar100", "cifar100": "cifar10"}
"""The corpora of clients, and the server's for each."""
SERVER_SHARE = {"cifar10": 0.1, "cifar100": 0.0625}
"""The share of the server's corpus that it has: a thousand images."""
TEST_SHARE, VALID_SHARE = 0.2, 0.1
SKEWS = {"IID": 1.0, "non-IID": 0.5}
"""The document's words, and the concentrations that it means by them."""
TUNED = "non-IID"
"""The clients on which learning rates are chosen, for both."""
SHARES = (0.2, 0.6, 1.0)
FEW = 0.1
FEDAVG, FEDLID, FEDSIMCLR, FEDCA = "FedAvg", "FedLID", "FedSimCLR + probe", "FedCA + probe"
FEW_LABELS, ALL_LABELS = f"{100 * FEW:.0f} % labels, ", ""
SUPERVISED_ALL = "supervised 100 %"
SERVER_METHOD = {"name": "fedlid", "server_epochs": SERVER_EPOCHS, "server_batch": 64}
METHODS: dict[str, dict[str, Any]] = {
    FEDAVG: {"name": "fedavg"},
    **{
        f"supervised {100 * share:.0f} %": {**SERVER_METHOD, "server_loss": "supervised", "share": share}
        for share in SHARES
    },
    FEDLID: SERVER_METHOD,
    FEDSIMCLR: {"name": "fedsimclr"},
    FEDCA: {"name": "fedca", "base_epochs": 1},
}
LRS, SERVER_LRS = (0.03, 0.1, 0.3), (0.03, 0.1)
RECEIVED, AFTER = "received_model/own_test/accuracy/mean", "client_model/own_test/accuracy/mean"
"""The model that clients received in the last round, and what they have after training it, on their own tests.

Clients of a supervised method predict with the model that they trained last (``lastlocalmodel``), and those of a method
without labels with the encoder that they received and a head of their own (``linearprobe``).
"""


@dataclass(frozen=True)
class Rates:
    """The learning rates of clients and server."""

    clients: float
    server: float | None = None

    def __str__(self) -> str:
        return f"{self.clients:g}" if self.server is None else f"{self.clients:g}, server {self.server:g}"


def grid_of(method: str) -> dict[str, Rates]:
    """The candidates of a method, by their words."""
    servers: Sequence[float | None] = SERVER_LRS if METHODS[method]["name"] == "fedlid" else (None,)
    rates = [Rates(lr, server) for lr in LRS for server in servers]
    return {str(one): one for one in rates}


def data_of(request: StudyRequest) -> str:
    """The clients' corpus."""
    return request.data or next(iter(SERVER_DATA))


def lid_values(data: str, method: str, skew: str, labels: str, rates: Rates) -> dict[str, Any]:
    """The config of a run.

    Args:
        data: The clients' corpus.
        skew: How classes are divided, in the document's words.
        labels: ``FEW_LABELS``, or ``ALL_LABELS``.
        rates: The learning rates.
    """
    section = dict(METHODS[method])
    without_labels = section["name"] in ("fedsimclr", "fedca")
    task: dict[str, Any] = {
        "name": data,
        "clients": CLIENTS,
        "partition": {"name": "dirichlet", "alpha": SKEWS[skew]},
        "test_share": TEST_SHARE,
        "valid_share": VALID_SHARE,
        "model": "resnet8",
        "model_options": {"widths": [8, 16, 32], "stem_stride": 4},
    }
    if labels == FEW_LABELS:
        task["label_share"] = FEW
    if section["name"] == "fedlid":
        task["server_set"] = {"data": SERVER_DATA[data], "share": SERVER_SHARE[data]}
        section["server_lr"] = rates.server
    if section["name"] == "fedca":
        task["communal"] = {"share": 0.1, "labelled": False}
    return {
        "task": task,
        "method": section,
        "local": {
            "steps": VIEW_STEPS if without_labels else STEPS,
            "batch_size": 32,
            "lr": rates.clients,
            "momentum": 0.9,
        },
        "prediction": ["linearprobe"] if without_labels else ["lastlocalmodel"],
        "execution": "vectorised",
        "rounds": ROUNDS,
        "eval_every": ROUNDS,
        "checkpoint_every": ROUNDS,
    }


def tuned_as(method: str, labels: str) -> str:
    """Under which name a method's learning rates are chosen.

    All supervised servers have those of the one with all labels; what clients without labels train does not depend on
    how many there are.
    """
    if method.startswith("supervised"):
        return SUPERVISED_ALL
    return method if method in (FEDSIMCLR, FEDCA) else f"{labels}{method}"


def candidates_of(request: StudyRequest, cases: Sequence[tuple[str, str]]) -> Candidates:
    """The grids of some methods.

    Args:
        request: How the study is run.
        cases: Methods, and how many labels their clients have.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for method, labels in cases:
        key, data = tuned_as(method, labels), data_of(request)
        like = SUPERVISED_ALL if key == SUPERVISED_ALL else method
        if key not in found:
            found[key] = {words: lid_values(data, like, TUNED, labels, rates) for words, rates in grid_of(like).items()}
    return found


def lid_member(request: StudyRequest, method: str, skew: str, labels: str, chosen: Mapping[str, str]) -> Member:
    """A run that a table reports.

    Args:
        request: How the study is run.
        skew: How classes are divided.
        labels: How many labels clients have.
        chosen: The words for the chosen learning rates; without them, the first of the grid.
    """
    label, grid = f"{skew}, {labels}{method}", grid_of(method)
    rates = grid[chosen.get(tuned_as(method, labels), next(iter(grid)))]
    return Member(label, folder_name(label), lid_values(data_of(request), method, skew, labels, rates))


@dataclass(frozen=True)
class LidResult:
    """What one run measured on clients' own tests, and what answering without a model scores there.

    Args:
        received: The model that clients received.
        after: What they have after local training.
        pooled: The accuracy of always answering the most frequent class of all clients.
        own: That of always answering each client's own.
        bytes: What a client sends and gets in a round.
        rates: The learning rates, in words.
    """

    received: float
    after: float
    pooled: float
    own: float
    bytes: float
    rates: str


Results = Mapping[str, Sequence[LidResult]]
"""The results of each run's seeds, by its label."""


def result_of(history: History, rates: str) -> LidResult:
    """What a run measured.

    Args:
        rates: Its learning rates, in words.
    """
    metrics = history.records[-1]["metrics"]
    sent = history.total("bytes_sent") / history.records[-1]["round"] / CLIENTS
    pooled, own = (baseline_score(history, AFTER, name) for name in ("majority", "own majority"))
    return LidResult(metrics[RECEIVED], metrics[AFTER], pooled, own, sent, rates)
