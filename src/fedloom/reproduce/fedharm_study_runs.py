"""The runs of FedHARM's studies: pools of networks, arms, and the size of what is trained.

The document is a thesis (Psaltis 2024, chapter 9): {ResNet-18, 34, 50} and, for FedHARM_rem, EfficientNet and
MobileNetV3 besides, 10 rounds of 25 epochs, 5,000 shared images and descriptors of 1,920 numbers. Here the networks are
small ones of the same families, the images are two or three thousand, and descriptors have 120 numbers, so that a
study takes minutes. The document has neither isolated clients nor the control without alignment; both are here. Its
rivals average weights, so that all of their clients have the first network of the pool; each runs with the numbers of
clients that the document prints for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import fmean
from typing import Any

from fedloom.models import build
from fedloom.registry.spec import split_spec
from fedloom.reproduce.published_tables import published
from fedloom.reproduce.study import StudyRequest
from fedloom.runs.plans.members import Member, folder_name
from fedloom.runs.results.history import History

SCORE, TRAINED = "client_model/own_test/accuracy/mean", "trained_model/own_test/accuracy/mean"
"""What clients predict with, and what they have after local training, on their own tests."""
DATA = ("cifar10", "cifar100", "mnist")
CLIENTS = (5, 10, 20)
TUNED = 10
"""The number of clients with which learning rates are chosen, for all numbers; rivals without it have their first."""
ABLATED = 10
"""The number of clients of the ablations."""
SAMPLES = {"cifar10": 2000, "cifar100": 1000, "mnist": 2000}
"""Samples of all clients, of the classes that they get."""
ALL_CLASSES = {"cifar10": 10, "cifar100": 100, "mnist": 10}
CLASSES = {"cifar10": 5, "cifar100": 10, "mnist": 10}
"""How many classes clients get: of all, they would have too few images of each to learn anything."""
ROUNDS, EPOCHS, COMMUNAL_EPOCHS, COMMUNAL, TEST, VALID = 3, 2, 2, 0.15, 0.4, 0.1
"""Local epochs, those on the communal set, the share of training samples in it, and those for tests and validation."""
ABLATED_SAMPLES = {"cifar10": 3000, "cifar100": 3000, "mnist": 2000}
ABLATED_ROUNDS = {"cifar10": 4, "cifar100": 4, "mnist": 3}
LRS, ABLATED_LR = (0.002, 0.005, 0.0125), 0.005
"""Adam's learning rates to choose from; the ablations have one for all."""
K = 8
"""Entries of the first block's map in a descriptor, twice as many of each next one: 120 numbers of four blocks."""
RESNET = "widths=[8,16,24,32],stem_stride=2"
INVERTED = "widths=[8,8,8,16,16,24,32],stem_stride=2"
RES = {name: f"{name}:{RESNET}" for name in ("resnet8", "resnet14")}
REM = RES | {name: f"{name}:{INVERTED}" for name in ("mini-mobilenet", "mini-efficientnet")}


PROBED = ("fedsimclr", "fedca", "fedsimsiam")
"""Methods without labels, whose clients fit a head to what they received."""


@dataclass(frozen=True)
class Arm:
    """A method on a pool of networks, or on the first of it where all clients need the same."""

    label: str
    pool: Mapping[str, str] = field(default_factory=lambda: REM)
    method: Mapping[str, Any] = field(default_factory=dict)
    is_rival: bool = False

    @property
    def is_probed(self) -> bool:
        """Whether its clients learn without labels."""
        return self.method["name"] in PROBED

    def counts(self, data: str) -> tuple[int, ...]:
        """With how many clients it runs: a rival where the document has a number."""
        if not self.is_rival:
            return CLIENTS
        return tuple(map(int, published("fedharm").tables["accuracy"].row(f"{data}, {self.label}")))

    def tuned(self, data: str) -> int:
        """With how many clients its learning rate is chosen."""
        return TUNED if TUNED in self.counts(data) else self.counts(data)[0]

    def config(self, data: str, clients: int, lr: float) -> dict[str, Any]:
        """The config of its runs, with a learning rate that was chosen on validation parts."""
        share = ALL_CLASSES[data] // CLASSES[data]
        values = self._values(data, clients, share * SAMPLES[data], ROUNDS, lr)
        values["task"] |= {"test_share": TEST, "valid_share": VALID}
        if share > 1:  # only the first task of a stream takes place
            order = list(range(ALL_CLASSES[data]))
            values["task"]["stream"] = {"tasks": share, "rounds": ROUNDS, "order": order}
        if self.method["name"] == "fedharm":
            values["method"]["epochs"] = COMMUNAL_EPOCHS
        return values

    def ablated(self, data: str) -> dict[str, Any]:
        """The config of its runs among the ablations."""
        return self._values(data, ABLATED, ABLATED_SAMPLES[data], ABLATED_ROUNDS[data], ABLATED_LR)

    def _values(self, data: str, clients: int, samples: int, rounds: int, lr: float) -> dict[str, Any]:
        name = self.method["name"]
        task: dict[str, Any] = {
            "name": data,
            "clients": clients,
            "partition": {"name": "quantities", "sizes": [samples // clients] * clients},
            "test_share": 0.5,
            "communal": {"share": COMMUNAL},
        }
        if not self.is_rival:
            task["models"] = {one: {"model": model, "share": 1 / len(self.pool)} for one, model in self.pool.items()}
        else:
            task["model"], task["model_options"] = split_spec(next(iter(self.pool.values())))
            del task["communal"]  # what is communal to FedHARM is the client's own here
        if name == "fedca":
            task["communal"] = {"share": COMMUNAL, "labelled": False}
        if name == "fedcon":
            task["server_set"] = {"share": COMMUNAL}
        return {
            "task": task,
            "method": dict(self.method),
            "local": {"epochs": EPOCHS, "batch_size": 32, "lr": lr, "optimizer": "adam"},
            "prediction": ["linearprobe"] if self.is_probed else [],
            "weight_by": "uniform",
            "rounds": rounds,
            "eval_every": rounds,
            "checkpoint_every": rounds,
        }


RIVALS = (
    Arm("FedCon", RES, {"name": "fedcon"}, is_rival=True),
    Arm("PerFCL", RES, {"name": "perfcl"}, is_rival=True),
    Arm("MOON", RES, {"name": "moon"}, is_rival=True),
    Arm("FedSimCLR + probe", RES, {"name": "fedsimclr"}, is_rival=True),
    Arm("FedCA + probe", RES, {"name": "fedca", "base_epochs": EPOCHS}, is_rival=True),
    Arm("FedSimSiam + probe", RES, {"name": "fedsimsiam"}, is_rival=True),
)
ISOLATED = Arm("isolated", method={"name": "local"})
UNALIGNED = Arm("no alignment (a = 1)", method={"name": "fedharm", "a": 1.0})
FEDHARM_RES = Arm("FedHARM res", RES, {"name": "fedharm", "k": K})


def document_blocks(data: str, table: str = "blocks") -> tuple[int, ...]:
    """The document's blocks of EfficientNet and MobileNet for the four of ResNet.

    Args:
        table: ``blocks``, as printed; ``blocks_by_rule``, by its own rule and divergences.
    """
    return tuple(map(int, published("fedharm").tables[table].rows[data]))


def fedharm_rem(data: str) -> Arm:
    """FedHARM on all families, with the document's map of blocks."""
    blocks = {name: document_blocks(data) for name in REM if name not in RES}
    return Arm("FedHARM rem", method={"name": "fedharm", "k": K, "align": blocks})


def arms(data: str) -> tuple[Arm, ...]:
    """What is compared: controls, the rivals that the document has on these data, and FedHARM."""
    rivals = (arm for arm in RIVALS if arm.counts(data))
    return (ISOLATED, UNALIGNED, *rivals, FEDHARM_RES, fedharm_rem(data))


def ablations(data: str) -> tuple[Arm, ...]:
    """What is compared for one number of clients."""
    return (
        UNALIGNED,
        fedharm_rem(data),
        Arm("rem, blocks by KL", method={"name": "fedharm", "k": K, "align": "kl"}),
        Arm("rem, only the last block", method={"name": "fedharm", "k": (64,), "align": "last"}),
        Arm("rem, pool and crop", method={"name": "fedharm", "k": (32,), "align": "last", "descriptor": "pool"}),
        Arm("res, no alignment", RES, {"name": "fedharm", "a": 1.0}),
        FEDHARM_RES,
        Arm("res, raw maps", RES, {"name": "fedharm", "descriptor": "maps"}),
    )


@cache
def model_bytes(spec: str, data: str) -> int:
    """The size of one network of a pool."""
    name, options = split_spec(spec)
    shape, classes = ((1, 28, 28), 10) if data == "mnist" else ((3, 32, 32), 100 if data == "cifar100" else 10)
    return 4 * sum(parameter.numel() for parameter in build(name, shape, classes, 0, **options).parameters())


def model_kilobytes(arm: Arm, data: str) -> float:
    """The mean size of the networks of an arm's pool."""
    return fmean(model_bytes(spec, data) for spec in arm.pool.values()) / 1000


Values = Mapping[tuple[str, int], Sequence[History]]
"""The runs of each arm and number of clients, one per seed."""


def data_of(request: StudyRequest) -> str:
    """The data of a study."""
    return request.data or DATA[0]


def arm_member(data: str, arm: Arm, clients: int, values: Mapping[str, Any]) -> Member:
    """A run of an arm."""
    label = f"{data}, {clients} clients, {arm.label}"
    return Member(label, folder_name(label), values)


def run_cells(request: StudyRequest, cells: Mapping[tuple[str, int], Member]) -> Values:
    """Run what tables report."""
    found = request.run(list(cells.values()))
    return {cell: found[member.label] for cell, member in cells.items()}


def accuracies_of(runs: Sequence[History], score: str = SCORE) -> list[float]:
    """The last accuracy of each seed."""
    return [run.series(score)[1][-1] for run in runs]


def kilobytes_sent(runs: Sequence[History]) -> tuple[str, ...]:
    """Kilobytes per client and round, up and down."""
    clients = len(runs[0].clients)
    means = (
        fmean(record[way] for run in runs for record in run.records if record["round"])
        for way in ("bytes_up", "bytes_down")
    )
    return tuple(f"{mean / clients / 1000:.1f}" for mean in means)
