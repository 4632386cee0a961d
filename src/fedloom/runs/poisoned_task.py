"""The task of a run whose adversary acts on data: what hostile clients train on, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from fedloom.core.adversary import Adversary
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.data.changes.replaced_samples import ReplacedSamples, with_replaced_samples
from fedloom.data.federation import Federation
from fedloom.rounds.hostile_clients import HostileClients


def poisoned_task(task: Task, hostile: HostileClients, seed: int) -> Task:
    """The task as its clients train on it, with the samples of hostile ones changed.

    Args:
        task: The task as honest clients have it.
        hostile: The attack, and who carries it out.
    """
    task, attack = hostile.poison_task(task, seed), hostile.attack
    if not isinstance(attack, Adversary) or type(attack).poison_samples is Adversary.poison_samples:
        return task
    federation, name = task.federation, type(attack).__name__.lower()
    if not isinstance(federation, Federation) or not federation.samples_are_independent or task.stacking_obstacle:
        raise FedloomError(
            f"{name} changes samples one by one, and those of task {task.name} are parts of graphs: use an attack that "
            "changes updates, such as signflipping."
        )
    found = [_poison(task, federation, client, hostile, seed) for client in sorted(hostile.members)]
    replaced = [one for one in found if len(one.positions)]
    return replace(task, federation=with_replaced_samples(federation, replaced, attack.start, attack.stop))


def _poison(task: Task, federation: Federation, client: int, hostile: HostileClients, seed: int) -> ReplacedSamples:
    """The samples of a client that its attack changes, of all that it ever trains on."""
    states = (federation, *(state for _, state in federation.later))
    positions = torch.unique(torch.cat([state.train[client] for state in states]))
    samples = {name: column[positions] for name, column in federation.columns.items()}
    poisoned = samples | dict(hostile.attack.poison_samples(samples, client, task, seed))
    _check(poisoned, samples, type(hostile.attack).__name__)
    changed = torch.zeros(len(positions), dtype=torch.bool)
    for name, rows in samples.items():
        changed |= (poisoned[name] != rows).flatten(1).any(1) if rows.dim() > 1 else poisoned[name] != rows
    return ReplacedSamples(client, positions[changed], {name: rows[changed] for name, rows in poisoned.items()})


def _check(poisoned: Mapping[str, Tensor], samples: Mapping[str, Tensor], name: str) -> None:
    """Raise an error for samples that cannot stand in the place of others."""
    for column, rows in poisoned.items():
        if column not in samples:
            known = ", ".join(samples)
            raise FedloomError(f"attack {name}: poison_samples names the column '{column}', but there are {known}.")
        wanted = samples[column]
        if not isinstance(rows, Tensor) or (rows.shape, rows.dtype) != (wanted.shape, wanted.dtype):
            made = f"{rows.dtype} of shape {tuple(rows.shape)}" if isinstance(rows, Tensor) else repr(rows)
            raise FedloomError(
                f"attack {name}: poison_samples makes {made} of column '{column}', which has {wanted.dtype} of shape "
                f"{tuple(wanted.shape)}: return as many samples of the same type."
            )
