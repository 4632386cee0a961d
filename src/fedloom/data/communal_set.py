"""A communal set out of the test set: a few labelled samples per class that the server and everyone else may see.

Methods that look at public data (FedSeq's confidences) need one. What is looked at must not be evaluated on, for any
method that is compared, so this is a setting of the task (``task.communal_per_class``) and not of a method.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import generator
from fedloom.data.federation import Federation, Ragged


def with_communal(federation: Federation, per_class: int, seed: int = 0) -> Federation:
    """A federation whose communal set is ``per_class`` samples of each class out of the global test set.

    They leave the global test set and every client's test part. A rare class gives at most half of its test samples.
    """
    labels, held = federation.columns["y"], federation.global_test
    if per_class < 0:
        raise FedloomError(f"communal_per_class={per_class}: it must not be negative.")
    if per_class == 0:
        return federation
    if labels.dim() > 1 or labels.is_floating_point():
        raise FedloomError(f"communal_per_class={per_class} counts classes, and these data have none: leave it out.")
    if len(federation.communal) or federation.later:
        raise FedloomError("set communal samples aside once, and before the data drift.")
    chosen = []
    for label in range(federation.classes):
        mine = held[labels[held] == label]
        order = torch.randperm(len(mine), generator=generator(seed, "communal", label))
        chosen.append(mine[order[: min(per_class, len(mine) // 2)]])
    communal = torch.cat(chosen).sort().values
    if not len(communal):
        raise FedloomError(
            f"communal_per_class={per_class} takes samples out of the global test set, and it has {len(held)} samples "
            f"of {federation.classes} classes: give it at least two of some class."
        )
    test = federation.test
    stays = ~torch.isin(test.order, communal)
    left = Ragged.by_owner(test.order[stays].numpy(), test.owners[stays].numpy(), len(test))
    return replace(federation, communal=communal, global_test=held[~torch.isin(held, communal)], test=left)
