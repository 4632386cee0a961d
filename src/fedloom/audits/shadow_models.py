"""Shadow models that are trained as the attacked one is: by a run of one client that holds half of a pool of samples.

An attacker who knows the settings of a run repeats it with samples of its own. What federation adds (other clients,
many rounds) it does not repeat, unless it is told so: it is the training of one client's data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from fedloom.attacks.membership.shadows import Shadows, train_shadows
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from fedloom.runs.run import run_on_task


def shadow_models(
    task: Task, pool: Tensor, number: int, settings: Mapping[str, Any] | None = None, seed: int = 0
) -> Shadows:
    """Shadow models of a task, each trained on a random half of a pool.

    Args:
        task: The task of the attacked run.
        pool: The positions of samples that the attacker has, or asks for.
        number: How many models.
        settings: How they are trained: settings of ``fl.run``, such as ``rounds`` and ``local``.
        seed: Keys the halves and the training.
    """

    def train(positions: Tensor, model: int) -> Tensor:
        return train_on(task, positions, {**(settings or {}), "seed": 1000 * (seed + 1) + model})

    return train_shadows(pool, number, train, seed)


def train_on(task: Task, positions: Tensor, settings: Mapping[str, Any]) -> Tensor:
    """The model that one client with some samples trains, as a row.

    Args:
        task: The task, whose other samples are left out.
        positions: The positions of its training samples.
        settings: Settings of ``fl.run``.
    """
    made = task.federation
    if not isinstance(made, Federation):
        raise FedloomError("shadow models are trained on samples that are here: use a task of a simulation.")
    one, none = Ragged.of([positions]), Ragged.empty(1)
    alone = replace(made, train=one, test=none, valid=none, names=(), later=(), seen=None, tasks=())
    history = run_on_task(replace(task, federation=alone, made_from={}), "fedavg", **{"eval_every": 0, **settings})
    if history.row is None:
        raise FedloomError("a shadow model was not trained to its end: give settings with which fedavg ends.")
    return history.row
