"""Claims about any method, user-defined ones included: it is deterministic, can be resumed, and both executions agree.

They need no closed form. No result of a method that fails one of them can be trusted.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import nn

from fedloom.conformance.claim import Claim
from fedloom.conformance.overlapping_task import overlapping_task
from fedloom.conformance.run_method import run_method
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, needed_facts
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from fedloom.runs.resume import resume_run
from fedloom.runs.run import run_on_task

WORK: dict[str, object] = {"epochs": 1, "batch_size": 8, "lr": 0.05}
NORMED: dict[str, object] = {**WORK, "batch_size": 6}
"""Local work that leaves no batch of one sample, from which BatchNorm has no statistics."""
WHOLE: dict[str, object] = {"epochs": 2, "batch_size": 0, "optimizer": "adam", "lr": 0.01}
SIZES = (30, 12, 21, 17, 26)
FEATURES, CLASSES = 6, 3


def labelled_task() -> Task:
    """A small classification problem: five clients of unequal size with skewed labels."""
    rng = np.random.default_rng(11)
    total = sum(SIZES)
    centres = rng.normal(size=(CLASSES, FEATURES)) * 2
    labels = np.concatenate([rng.choice(CLASSES, n, p=rng.dirichlet(np.ones(CLASSES))) for n in SIZES])
    inputs = centres[labels] + rng.normal(size=(total, FEATURES))
    lists = np.split(np.arange(total), np.cumsum(SIZES)[:-1])
    train, valid, test = (Ragged.of([part[i::4] if i else part[3:] for part in lists]) for i in (0, 1, 2))
    columns = {"x": torch.from_numpy(inputs).float(), "y": torch.from_numpy(labels)}
    everything = torch.arange(total)
    federation = Federation(
        columns,
        train,
        test,
        valid,
        CLASSES,
        global_test=everything,
        communal=everything[::2],
        server=everything[::3],
        server_classes=CLASSES,
    )
    with torch.random.fork_rng():
        torch.manual_seed(4)
        model = nn.Sequential(nn.Linear(FEATURES, 5), nn.ReLU(), nn.Linear(5, CLASSES))
    model.stages = ("1",)  # type: ignore[assignment]
    return Task("labelled", federation, model)


def image_task() -> Task:
    """The same problem with its features as the pixels of small images."""
    made = labelled_task()
    columns = {**made.federation.columns, "x": made.federation.columns["x"].view(-1, 1, 2, 3)}
    federation = replace(cast(Federation, made.federation), columns=columns)
    return replace(made, federation=federation, model=nn.Sequential(nn.Flatten(), *made.model.children()))


def normed_task() -> Task:
    """The same problem with a BatchNorm layer in its model."""
    made = labelled_task()
    first, *others = made.model.children()
    return replace(made, model=nn.Sequential(first, nn.BatchNorm1d(5), *others))


def task_for(method: Algorithm) -> tuple[Task, dict[str, object]]:
    """A small problem that suits the method, and local work that suits the problem."""
    if Fact.GRAPHS in needed_facts(method):
        return overlapping_task(), WHOLE
    if Fact.BATCHNORM in needed_facts(method):
        return normed_task(), NORMED
    return image_task() if Fact.IMAGES in needed_facts(method) else labelled_task(), WORK


def between_executions(method: Algorithm) -> float:
    """The largest relative difference between clients' models after vectorised training and after a loop."""
    task, work = task_for(method)
    rows = [run_method(task, method, 2, work, execution=how).prediction_rows() for how in ("vectorised", "loop")]
    return float((rows[0] - rows[1]).abs().max() / rows[1].abs().max())


def between_workers(method: Algorithm) -> float:
    """The number of files that differ between a run with one worker and a run with two."""
    with tempfile.TemporaryDirectory() as folder:
        one, two = Path(folder, "one"), Path(folder, "two")
        for where, workers in ((one, 1), (two, 2)):
            task, work = task_for(method)
            run_on_task(task, method, rounds=2, local=work, selection={"number": 3}, workers=workers, out=where)
        return _differences(one, two)


class _Stop(Exception):  # noqa: N818
    """Raised to stop a run between two rounds."""


def after_a_stop(method: Algorithm) -> float:
    """The number of files that differ between an uninterrupted run and one stopped after round 2 and resumed."""

    def stop(record: dict[str, object]) -> None:
        if record["round"] == 2:
            raise _Stop

    with tempfile.TemporaryDirectory() as folder:
        whole, part = Path(folder, "whole"), Path(folder, "part")
        task, work = task_for(method)
        settings = {"rounds": 3, "local": work, "selection": {"number": 3}}
        run_on_task(task, method, out=whole, **settings)  # type: ignore[arg-type]
        try:
            run_on_task(task, method, out=part, observers=[stop], **settings)  # type: ignore[arg-type]
        except _Stop:
            resume_run(part, task=task, method=method)
        else:
            raise FedloomError(
                "the run ended before round 2, where the check stops it: a method must run all its rounds."
            )
        return _differences(whole, part)


def _differences(one: Path, other: Path) -> float:
    names = {path.relative_to(base) for base in (one, other) for path in base.glob("checkpoints/**/*.safetensors")}
    names |= {Path("metrics.jsonl"), Path("clients.json")}
    same = [(one / name).exists() and (other / name).exists() for name in names]
    return float(sum(not here or (one / n).read_bytes() != (other / n).read_bytes() for n, here in zip(names, same, strict=True)))  # fmt: skip # noqa: E501


GENERAL = (
    Claim("trains alike in both executions", between_executions, within=1e-4),
    Claim("gives the same bytes with one worker and with two", between_workers, within=0.0),
    Claim("continues to the same bytes after a stop", after_a_stop, within=0.0),
)
