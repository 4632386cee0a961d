"""The runs of the study of label flipping against FedAvg and FedSeq, small enough for seconds each.

The document has 100 clients that are alike (Dirichlet, alpha 100), a LeNet and 1,000 rounds on CIFAR. Here the clients
are as many and as much alike, with a hidden layer of 64 and a few rounds; chains are of five, as many as make about 800
samples of CIFAR-10 (its authors' limit). They are given: which clients complement each other makes no difference where
all are alike, and hostile chains must be known before the first round. Half of the clients, or of the chains, take part
in a round, so that robust rules have ten chains to compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from statistics import fmean
from typing import Any

from fedloom.reproduce.robust_studies import Defence, Threat
from fedloom.reproduce.study import StudyRequest, baseline_score
from fedloom.runs.plans.members import Member, folder_name
from fedloom.runs.results.history import History

CLIENTS, CHAIN, PART = 100, 5, 0.5
CHAINS = [list(range(first, first + CHAIN)) for first in range(0, CLIENTS, CHAIN)]
FEDAVG, FEDSEQ = "FedAvg", "FedSeq"
METHODS: Mapping[str, dict[str, Any]] = {FEDAVG: {"name": "fedavg"}, FEDSEQ: {"name": "fedseq", "chains": CHAINS}}
ROWS = {FEDAVG: int(CLIENTS * PART), FEDSEQ: int(len(CHAINS) * PART)}
"""How many rows the server averages in a round."""
HIDDEN, BATCH = 64, 16
ROUNDS, RATES = {"cifar10": 14, "cifar100": 24}, {"cifar10": 0.02, "cifar100": 0.05}
SHARES = (0.1, 0.3, 0.5)
"""The document's L: the shares of clients, or of super-clients with all their members, that are hostile."""
GLOBAL = "global_model/global_test/"
SWAPPED = "adversary/attacked_accuracy"


@dataclass(frozen=True)
class Swap:
    """Which classes attackers swap.

    Args:
        name: The classes as the document calls them.
        classes: Lists of classes by number, which are swapped in pairs within a list.
        pairing: Whether all swap the same pairs, or each has its own.
    """

    name: str
    classes: tuple[tuple[int, ...], ...]
    pairing: str

    @property
    def label(self) -> str:
        """What tables call it."""
        return f"{self.name}, {self.pairing}"


PAIR, PETS, FOUR = "0-2", "5-3", "0-2 and 5-3"
EXTRA, INTRA = "extra_SC", "intra_SC"
FIXED, RANDOM = "fixed", "random"
_BOTH = ((0, 2, 5, 3),)
_EXTRA = ((4, 1, 54, 9, 0, 22, 5, 6, 3, 12, 23, 15, 34, 26, 2, 27, 36, 47, 8, 41),)
_INTRA = ((1, 73, 32, 67), (54, 62, 70, 82), (6, 7, 14, 18), (8, 13, 90, 48), (2, 11, 35, 98))
SWAPS: Mapping[str, tuple[Swap, ...]] = {
    "cifar10": (
        Swap(PAIR, ((0, 2),), FIXED),
        Swap(PETS, ((5, 3),), FIXED),
        Swap(FOUR, _BOTH, FIXED),
        Swap(FOUR, _BOTH, RANDOM),
    ),
    "cifar100": (
        *(Swap(EXTRA, _EXTRA, pairing) for pairing in (FIXED, RANDOM)),
        *(Swap(INTRA, _INTRA, pairing) for pairing in (FIXED, RANDOM)),
    ),
}
"""What is swapped, by corpus. Of CIFAR-100, ``extra_SC`` has a class of each superclass, ``intra_SC`` four of five."""
DEFENDED = {"cifar10": SWAPS["cifar10"][2], "cifar100": SWAPS["cifar100"][0]}
"""What is swapped against robust rules."""
MEAN = Defence("mean")
DEFENCES = (MEAN, Defence("krum"), Defence("trimmedmean"), Defence("foolsgold"), Defence("geometricmedian", 2))


@dataclass(frozen=True)
class FlippingCell:
    """A run of the tables.

    Args:
        method: ``FedAvg`` or ``FedSeq``.
        share: The share of hostile clients or chains.
        swap: What they swap; nothing if nobody is hostile.
        defence: How the server averages.
    """

    method: str
    share: float = 0.0
    swap: Swap | None = None
    defence: Defence = MEAN

    @property
    def label(self) -> str:
        """The label of the run."""
        rule = "" if self.defence == MEAN else f", {self.defence.label}"
        return f"{self.method}, {'' if self.swap is None else f'{self.swap.label}, '}L {self.share:g}{rule}"


@dataclass(frozen=True)
class SwapScores:
    """What a run scored on the test set.

    Args:
        everything: The accuracy.
        classes: The accuracy of each class that any attack swaps, where nobody is hostile.
        swapped: The mean accuracy of the swapped classes, where somebody is.
    """

    everything: float
    classes: Mapping[int, float]
    swapped: float = nan


Results = Mapping[FlippingCell, Sequence[SwapScores]]
"""What the seeds of each run scored; the cells ``BASELINE`` has what always answering one class does."""
BASELINE = FlippingCell("baseline")


def data_of(request: StudyRequest) -> str:
    """The corpus of a study."""
    return request.data or next(iter(SWAPS))


def cells(data: str) -> Iterator[tuple[FlippingCell, Member]]:
    """The cells of the tables, with their runs; what a rule cannot withstand is left out.

    Args:
        data: The corpus.
    """
    found = [FlippingCell(method) for method in METHODS]
    found += [FlippingCell(method, share, swap) for method in METHODS for swap in SWAPS[data] for share in SHARES]
    found += [FlippingCell(method, 0.0, None, rule) for method in METHODS for rule in DEFENCES[1:]]
    found += [
        FlippingCell(method, share, DEFENDED[data], rule)
        for method in METHODS
        for rule in DEFENCES[1:]
        for share in SHARES
    ]
    for cell in found:
        threat = Threat("labelflipping", cell.share) if cell.swap else Threat()
        rule = cell.defence.config(threat, ROWS[cell.method])
        if rule is not None:
            yield cell, Member(cell.label, folder_name(cell.label), {**values_of(data, cell), "aggregation": rule})


def values_of(data: str, cell: FlippingCell) -> dict[str, Any]:
    """The config of a run without its aggregation.

    Args:
        data: The corpus.
    """
    task: dict[str, Any] = {
        "name": data,
        "clients": CLIENTS,
        "partition": {"name": "dirichlet", "alpha": 100.0},
        "test_share": 0.02,
        "model": "mlp",
        "model_options": {"hidden": [HIDDEN]},
    }
    attack: dict[str, Any] = {}
    if cell.swap is None:
        task["metrics"] = ["accuracy", *({"name": "recall", "label": label} for label in swapped_classes(data))]
    else:
        who = {"groups": CHAINS} if cell.method == FEDSEQ else {}
        classes = [list(some) for some in cell.swap.classes]
        name, pairing = "labelflipping", cell.swap.pairing
        attack = {"adversary": {"name": name, "fraction": cell.share, "classes": classes, "pairing": pairing, **who}}
    return {
        "task": task,
        "method": dict(METHODS[cell.method]),
        "selection": {"name": "random", "fraction": PART},
        "local": {"epochs": 1, "batch_size": BATCH, "lr": RATES[data]},
        "rounds": ROUNDS[data],
        "eval_every": ROUNDS[data],
        "eval_clients": 1,
        "checkpoint_every": ROUNDS[data],
        **attack,
    }


def swapped_classes(data: str) -> list[int]:
    """All classes that an attack of a corpus swaps."""
    return sorted({label for swap in SWAPS[data] for some in swap.classes for label in some})


def flipping_results(request: StudyRequest) -> Results:
    """Run everything, and read what it scored."""
    data = data_of(request)
    histories = request.run([member for _, member in cells(data)])
    found = {cell: [_accuracy(run, data) for run in histories[member.label]] for cell, member in cells(data)}
    return found | {BASELINE: [_accuracy_of_baseline(run, data) for run in histories[FlippingCell(FEDAVG).label]]}


def _accuracy(history: History, data: str) -> SwapScores:
    last = history.records[-1]["metrics"]
    classes = {label: last.get(f"{GLOBAL}recall_{label}", nan) for label in swapped_classes(data)}
    return SwapScores(last[f"{GLOBAL}accuracy"], classes, last.get(SWAPPED, nan))


def _accuracy_of_baseline(history: History, data: str) -> SwapScores:
    classes = {label: baseline_score(history, f"{GLOBAL}recall_{label}") for label in swapped_classes(data)}
    return SwapScores(baseline_score(history, f"{GLOBAL}accuracy"), classes)


def global_of(results: Results, *of: FlippingCell) -> list[float]:
    """The accuracy in all of each seed: the mean over some cells."""
    return [fmean(some) for some in zip(*([one.everything for one in results[cell]] for cell in of), strict=True)]


def swapped_of(results: Results, *of: FlippingCell) -> list[float]:
    """The accuracy of the swapped classes of each seed: the mean over some cells with an attack."""
    return [fmean(some) for some in zip(*([one.swapped for one in results[cell]] for cell in of), strict=True)]


def unattacked(results: Results, cell: FlippingCell, *swaps: Swap) -> list[float]:
    """The accuracy of the classes of some swaps, by seed, where nobody swaps them: the mean over the swaps.

    Args:
        cell: The run, or the baseline.
        swaps: Whose classes.
    """
    lists = [[label for some in swap.classes for label in some] for swap in swaps]
    return [fmean(fmean(one.classes[label] for label in labels) for labels in lists) for one in results[cell]]
