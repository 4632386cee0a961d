"""Scarce labels: every client knows the labels of a share of its training samples, and the others' are ``IGNORED``.

The share is taken as ``carve`` takes one: evenly over a client's classes, and at least one label per client. Validation
and test samples keep their labels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import numpy_generator
from fedloom.core.settings import PositiveShare, check_value
from fedloom.core.targets import target_kind
from fedloom.data.carve import every_nth
from fedloom.data.federation import Federation
from fedloom.data.public_samples import without_targets

SETTING = "label_share"


def with_label_share(federation: Federation, share: float, seed: int = 0) -> Federation:
    """A federation in which only a share of each client's training samples have labels.

    Args:
        federation: The federation with all labels.
        share: The share of labels that stay.
        seed: The seed of the choice.
    """
    check_value("label_share", share, PositiveShare)
    if target_kind(federation.columns["y"]) != "classes":
        raise FedloomError("label_share leaves classes out, but these targets are not classes: leave it out.")
    if share == 1:
        return federation
    if federation.later:
        raise FedloomError("label_share: labels can be left out only before concept drift or a stream.")
    labels, nobody = federation.columns["y"].numpy(), np.arange(len(federation.columns["y"]))
    lists = [federation.train[client].numpy() for client in range(federation.clients)]
    kept = [
        every_nth(own, labels, nobody, share, numpy_generator(seed, SETTING, client)) if len(own) > 1 else own
        for client, own in enumerate(lists)
    ]
    order = federation.train.order.numpy()
    lost = torch.from_numpy(order[~np.isin(order, np.concatenate(kept))])
    note = f"label_share: {len(order) - len(lost):,} of {len(order):,} training samples have a label."
    return replace(without_targets(federation, lost, SETTING), notes=(*federation.notes, note))
