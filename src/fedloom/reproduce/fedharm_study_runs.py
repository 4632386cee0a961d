"""The runs of FedHARM's studies: pools of networks, arms, and the size of what is trained.

The document is a thesis (Psaltis 2024, chapter 9): {ResNet-18, 34, 50} and, for FedHARM_rem, EfficientNet and
MobileNetV3 besides, 10 rounds of 25 epochs, 5,000 shared images and descriptors of 1,920 numbers. Here the networks are
small ones of the same families, the images are two or three thousand, and descriptors have 120 numbers, so that a
study takes minutes. The document has neither isolated clients nor the control without alignment; both are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from statistics import fmean
from typing import Any

from fedloom.models import build
from fedloom.registry.spec import split_spec
from fedloom.reproduce.published_tables import published

DATA = ("cifar10", "cifar100", "mnist")
CLIENTS = (5, 10, 20)
ABLATED = 10
"""The number of clients of the ablations."""
SAMPLES = {"cifar10": 3000, "cifar100": 3000, "mnist": 2000}
"""Samples of all clients, half of them for tests."""
ROUNDS = {"cifar10": 4, "cifar100": 4, "mnist": 3}
EPOCHS, COMMUNAL = 2, 0.15
"""Local epochs, and the share of training samples that everybody sees."""
K = 8
"""Entries of the first block's map in a descriptor, twice as many of each next one: 120 numbers of four blocks."""
RESNET = "widths=[8,16,24,32],stem_stride=2"
INVERTED = "widths=[8,8,8,16,16,24,32],stem_stride=2"
RES = {name: f"{name}:{RESNET}" for name in ("resnet8", "resnet14")}
REM = RES | {name: f"{name}:{INVERTED}" for name in ("mini-mobilenet", "mini-efficientnet")}


@dataclass(frozen=True)
class Arm:
    """A method on a pool of networks."""

    label: str
    pool: Mapping[str, str] = field(default_factory=lambda: REM)
    method: Mapping[str, Any] = field(default_factory=dict)

    def config(self, data: str, clients: int) -> dict[str, Any]:
        """The config of its runs."""
        names = {name: {"model": model, "share": 1 / len(self.pool)} for name, model in self.pool.items()}
        return {
            "task": {
                "name": data,
                "clients": clients,
                "partition": {"name": "quantities", "sizes": [SAMPLES[data] // clients] * clients},
                "test_share": 0.5,
                "communal": {"share": COMMUNAL},
                "models": names,
            },
            "method": dict(self.method),
            "local": {"epochs": EPOCHS, "batch_size": 32, "lr": 0.005, "optimizer": "adam"},
            "weight_by": "uniform",
            "rounds": ROUNDS[data],
            "eval_every": ROUNDS[data],
            "checkpoint_every": ROUNDS[data],
        }


ISOLATED = Arm("isolated", method={"name": "local"})
UNALIGNED = Arm("no alignment (a = 1)", method={"name": "fedharm", "a": 1.0})
FEDHARM_RES = Arm("FedHARM res", RES, {"name": "fedharm", "k": K})


def document_blocks(data: str) -> tuple[int, ...]:
    """The document's blocks of EfficientNet and MobileNet for the four of ResNet."""
    return tuple(map(int, published("fedharm").tables["blocks"].rows[data]))


def fedharm_rem(data: str) -> Arm:
    """FedHARM on all families, with the document's map of blocks."""
    blocks = {name: document_blocks(data) for name in REM if name not in RES}
    return Arm("FedHARM rem", method={"name": "fedharm", "k": K, "align": blocks})


def arms(data: str) -> tuple[Arm, ...]:
    """What is compared for every number of clients."""
    return (ISOLATED, UNALIGNED, FEDHARM_RES, fedharm_rem(data))


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
