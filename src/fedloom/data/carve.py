"""Training samples that leave their clients: a share of every client's, spread evenly over its classes.

A client's samples are ordered by class, at random within a class, and every n-th of them is taken. So a client gives
its share to within one sample, and so does each of its classes. Groups are taken whole.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import numpy_generator
from fedloom.core.settings import OpenShare, check_value
from fedloom.core.targets import target_kind
from fedloom.data.federation import Federation, Ragged
from fedloom.data.leak_groups import Units


def carve(federation: Federation, share: float, setting: str, seed: int) -> tuple[Federation, Tensor]:
    """The federation without a share of each client's training samples, and the sorted positions of these.

    Clients keep at least one training sample; who has only one gives none. What is taken is in no part of any client.

    Args:
        share: The share of each client's training samples.
        setting: The setting that asks for it, for errors and as the purpose of the random choice.
        seed: The seed of the choice.
    """
    check_value(f"{setting}: share", share, OpenShare)
    if federation.later:
        raise FedloomError(f"{setting}: samples can be set aside only before concept drift or a stream.")
    group = _groups(federation)
    _refuse_shared_groups(federation, group, setting)
    y = federation.columns["y"]
    labels = y.numpy() if target_kind(y) == "classes" else np.zeros(len(y), dtype=np.int64)
    taken = [
        every_nth(part.numpy(), labels, group, share, numpy_generator(seed, f"{setting} share", client))
        for client, part in enumerate(federation.train[client] for client in range(federation.clients))
    ]
    chosen = torch.from_numpy(np.unique(np.concatenate(taken)))
    if not len(chosen):
        raise FedloomError(
            f"{setting}: no client can spare a training sample: every client keeps at least one, and groups of samples "
            "stay together; use fewer clients or more data."
        )
    gone = group[chosen.numpy()]

    def left(lists: Ragged) -> Ragged:
        stays = torch.from_numpy(~np.isin(group[lists.order.numpy()], gone))
        return Ragged.by_owner(lists.order[stays].numpy(), lists.owners[stays].numpy(), len(lists))

    return replace(federation, train=left(federation.train), valid=left(federation.valid)), chosen


def _groups(federation: Federation) -> np.ndarray:
    """The group of each sample: its own number where samples have no groups."""
    samples = len(federation.columns["y"])
    return np.arange(samples) if federation.group is None else federation.group.numpy()


def _refuse_shared_groups(federation: Federation, group: np.ndarray, setting: str) -> None:
    """Raise an error if training samples share a group with test samples, as windows of one text do."""
    tested = np.concatenate([group[federation.test.order.numpy()], group[federation.global_test.numpy()]])
    if np.isin(group[federation.train.order.numpy()], tested).any():
        raise FedloomError(
            f"{setting}: training samples overlap test samples, or belong to the same group, so a share of them cannot "
            "be set aside without a leak: give a file (path), or use communal_per_class."
        )


def every_nth(
    own: np.ndarray, labels: np.ndarray, group: np.ndarray, share: float, generator: np.random.Generator
) -> np.ndarray:
    """A share of one client's positions: every n-th of its groups, at least one, and never all of them.

    Args:
        own: The client's positions.
        labels: The class of every sample of the federation.
        group: The group of every sample.
        generator: Draws the order within a class, and where to begin.
    """
    units = Units.among(group[own], len(own))
    count = len(units.first)
    number = min(max(1, int(count * share + 0.5)), count - 1)
    if number < 1:
        return own[:0]
    kinds = units.labels(labels[own]).reshape(count, -1)[:, 0]
    order = np.lexsort((generator.random(count), kinds))
    places = ((np.arange(number) + generator.random()) * count / number).astype(np.int64)
    chosen: np.ndarray = own[np.isin(units.of, order[places])]
    return chosen
