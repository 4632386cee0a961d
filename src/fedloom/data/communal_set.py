"""A communal set taken from the test set: a few labelled samples per class that the server and all clients may see.

Methods that use public data need one (FedSeq for its confidences). Samples that one method has seen must not be used to
evaluate any of the compared methods, so this is a setting of the task (``task.communal_per_class``), not of a method.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import generator
from fedloom.core.targets import target_kind
from fedloom.data.federation import Federation, Ragged


def with_communal(federation: Federation, per_class: int, seed: int = 0) -> Federation:
    """A federation whose communal set is ``per_class`` samples of each class from the global test set.

    They leave the global test set and every client's test part. A rare class gives at most half of its test samples.
    Samples with groups are taken group by group, and what is left of these groups is in no part.
    """
    labels, held = federation.columns["y"], federation.global_test
    group = torch.arange(len(labels)) if federation.group is None else federation.group
    if per_class < 0:
        raise FedloomError(f"communal_per_class={per_class}: it must not be negative.")
    if per_class == 0:
        return federation
    if target_kind(labels) != "classes":
        raise FedloomError(
            f"communal_per_class={per_class} takes samples of each class, but these data have no classes: leave it out."
        )
    if len(federation.communal) or federation.later:
        raise FedloomError("communal samples can be set aside only once, and before concept drift.")
    chosen = []
    for label in range(federation.classes):
        mine = held[labels[held] == label]
        units, unit_of = torch.unique(group[mine], return_inverse=True)
        place = torch.randperm(len(units), generator=generator(seed, "communal", label)).argsort()[unit_of]
        order = place.argsort(stable=True)[: int((place < len(units) // 2).sum())]
        chosen.append(mine[order[: min(per_class, len(mine) // 2)]])
    communal = torch.cat(chosen).sort().values
    if not len(communal):
        raise FedloomError(
            f"communal_per_class={per_class} takes samples from the global test set, which has {len(held)} samples "
            f"of {federation.classes} classes: at least one class needs two samples."
        )
    test, seen = federation.test, group[communal]
    stays = ~torch.isin(group[test.order], seen)
    left = Ragged.by_owner(test.order[stays].numpy(), test.owners[stays].numpy(), len(test))
    return replace(federation, communal=communal, global_test=held[~torch.isin(group[held], seen)], test=left)
