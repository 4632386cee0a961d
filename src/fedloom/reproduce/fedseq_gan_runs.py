"""The runs of the study of GAN attacks on FedAvg and FedSeq, and what is measured after every visit of the attacker.

The document has CIFAR-10 and EMNIST, 300 epochs of the GAN per visit, and FID by Inception. Here are scikit-learn's
digits at 20 clients whose classes differ (Dirichlet, alpha 0.5), chains of four, a hidden layer of 64, short visits,
and FID by a classifier of the digits that was trained in one place. One client attacks, drawn by the seed: it takes
part when it is selected, like any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedloom.attacks.reconstruction.gan import GAN
from fedloom.attacks.reconstruction.gradients import inputs_of, outputs_of
from fedloom.audits.generators_of_run import GeneratorVisit, with_visits
from fedloom.audits.reference_classifier import ReferenceClassifier
from fedloom.core.task import Task
from fedloom.files.atomic_write import write_atomic
from fedloom.reproduce.study import StudyRequest, baseline_score
from fedloom.runs.plans.members import Member, RunFactory, folder_name
from fedloom.runs.runner import execute

CLIENTS, CHAIN, PART, ROUNDS = 20, 4, 0.5, 30
CHAINS = [list(range(first, first + CHAIN)) for first in range(0, CLIENTS, CHAIN)]
FEDAVG, FEDSEQ = "FedAvg", "FedSeq"
METHODS: Mapping[str, dict[str, Any]] = {FEDAVG: {"name": "fedavg"}, FEDSEQ: {"name": "fedseq", "chains": CHAINS}}
ADDED, ORIGINAL, CONTROL = "added output", "original", "random weights"
VARIANTS = {ADDED: "added", ORIGINAL: "original", CONTROL: "random"}
STEPS, MADE, SHOWN = 80, 1000, 10
"""Steps of a visit, images that are measured after it, and images that are shown."""
CLASSIFIER: Mapping[str, Any] = {"rounds": 1, "local": {"epochs": 25, "lr": 0.1, "batch_size": 16}}
GLOBAL = "global_model/global_test/accuracy"


@dataclass(frozen=True)
class VisitScore:
    """What is measured after a visit.

    Args:
        round: The round of the visit.
        accuracy: The accuracy of the model that judged, on the test set.
        fid: The FID of what is made to all clients' training images.
        target: The share of it that the classifier takes for the class that ``original`` is after.
    """

    round: int
    accuracy: float
    fid: float
    target: float = nan


@dataclass(frozen=True)
class AttackScores:
    """What is measured of a run.

    Args:
        visits: Its visits, in order.
        accuracy: The accuracy of the shared model at the end.
        baseline: That of always answering the most frequent class.
        own: The FID of the attacker's own images.
        halves: The FID of one half of the real images to the other.
        noise: The FID of noise in the range of pixels.
    """

    visits: tuple[VisitScore, ...]
    accuracy: float
    baseline: float
    own: float
    halves: float
    noise: float


Attacks = Mapping[tuple[str, str], Sequence[AttackScores]]
"""The seeds of each method and variant."""


def label_of(method: str, variant: str) -> str:
    """The label of a run."""
    return f"{method}, {variant}"


def gan_members(request: StudyRequest) -> list[Member]:
    """The runs."""
    return request.changed([member for _, member in gan_cells()])


def gan_cells() -> Iterator[tuple[tuple[str, str], Member]]:
    """The runs with their methods and variants."""
    for method, section in METHODS.items():
        for words, variant in VARIANTS.items():
            label, dirichlet = label_of(method, words), {"name": "dirichlet", "alpha": 0.5}
            values: dict[str, Any] = {
                "task": {
                    "name": "digits",
                    "clients": CLIENTS,
                    "partition": dirichlet,
                    "model": "mlp",
                    "model_options": {"hidden": [64]},
                },
                "method": dict(section),
                "selection": {"name": "random", "fraction": PART},
                "local": {"epochs": 1, "batch_size": 16, "lr": 0.03},
                "adversary": {"name": "gan", "variant": variant, "fraction": 1 / CLIENTS, "steps": STEPS},
                "rounds": ROUNDS,
                "eval_every": ROUNDS,
            }
            yield (method, words), Member(label, folder_name(label), values)


def gan_results(request: StudyRequest) -> Attacks:
    """What all runs measured; those that are in the folder are read."""
    found: dict[tuple[str, str], list[AttackScores]] = {cell: [] for cell, _ in gan_cells()}
    factory = RunFactory(workers=1)
    members = gan_members(request)
    for seed in range(request.seeds):
        for cell, member in zip(found, members, strict=True):
            folder = member.folder(request.out, seed)
            if not (folder / "visits.json").exists():
                _play(request, member, seed, factory, folder)
            found[cell].append(read_scores(folder))
    return found


def read_scores(folder: Path) -> AttackScores:
    """What a run measured.

    Args:
        folder: Where it was written.
    """
    values = json.loads((folder / "visits.json").read_text("utf-8"))
    return AttackScores(**values | {"visits": tuple(VisitScore(**one) for one in values["visits"])})


def read_pictures(folder: Path) -> dict[str, np.ndarray]:
    """The last images that a run's attacker made, its own ones, and some real ones.

    Args:
        folder: Where they were written.
    """
    with np.load(folder / "pictures.npz") as file:
        return dict(file)


def _play(request: StudyRequest, member: Member, seed: int, factory: RunFactory, folder: Path) -> None:
    """Play a run, measure every visit, and write numbers and pictures."""
    prepared, visits = factory.prepare(member, seed), list[GeneratorVisit]()
    hostile = prepared.composition.hostile
    if hostile is None or not isinstance(hostile.attack, GAN):
        raise AssertionError("the run has no GAN attack")
    attack = with_visits(hostile.attack, visits.append)
    composition = replace(prepared.composition, hostile=replace(hostile, attack=attack))
    history = execute(replace(prepared, composition=composition), None, request.watch(member.label, seed))
    task = composition.task
    classifier = ReferenceClassifier.train(task, {**CLASSIFIER, "seed": seed})
    real, own = (inputs_of(task, some) for some in (task.federation.train.order, _own(task, hostile.members)))
    made = [attack.generators_for(task).pictures(visit.generator, MADE) for visit in visits]
    wanted = torch.full((MADE,), attack.target)
    scores = AttackScores(
        tuple(
            VisitScore(
                visit.round,
                accuracy_of(task, visit.received),
                classifier.distance(images, real),
                classifier.accuracy(images, wanted),
            )
            for visit, images in zip(visits, made, strict=True)
        ),
        history.records[-1]["metrics"][GLOBAL],
        baseline_score(history, GLOBAL),
        classifier.distance(own, real),
        *_references(classifier, real, seed),
    )
    folder.mkdir(parents=True, exist_ok=True)
    last = made[-1][:SHOWN] if made else real[:0]
    np.savez(folder / "pictures.npz", made=last.numpy(), own=own[:SHOWN].numpy(), real=real[:SHOWN].numpy())
    write_atomic(folder / "visits.json", json.dumps(asdict(scores)).encode())  # last: it says that the run is done


def _own(task: Task, members: frozenset[int]) -> Tensor:
    return torch.cat([task.federation.train[client] for client in sorted(members)])


def _references(classifier: ReferenceClassifier, real: Tensor, seed: int) -> tuple[float, float]:
    """The FID of two halves of the real images, and that of noise."""
    draws = torch.Generator().manual_seed(seed)
    order, half = torch.randperm(len(real), generator=draws), len(real) // 2
    low, high = float(real.min()), float(real.max())
    noise = low + (high - low) * torch.rand(real.shape, generator=draws)
    halves = classifier.distance(real[order[:half]], real[order[half:]])
    return halves, classifier.distance(noise, real)


@torch.no_grad()
def accuracy_of(task: Task, row: Tensor) -> float:
    """The accuracy of a model on the test set.

    Args:
        row: The model.
    """
    positions = task.federation.global_test
    said = outputs_of(task, task.layout.views(row), inputs_of(task, positions)).argmax(1)
    return float((said == task.targets(positions)).double().mean())
