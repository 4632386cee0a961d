"""The communal set: samples that the server and all clients may see.

Methods that exchange outputs need one, and so does FedSeq for its confidences. Samples that one method has seen must
not be used to train or evaluate any of the compared methods, so it is a setting of the task and not of a method:
``task.communal`` takes a share of all clients' training data, or a user's file; ``task.communal_per_class`` takes a few
samples of each class from the test set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from fedloom.core.arguments import argument_error
from fedloom.core.errors import FedloomError
from fedloom.core.seeds import generator
from fedloom.core.settings import OpenShare, WholeNumber, check_settings, check_value
from fedloom.core.targets import target_kind
from fedloom.data.carve import carve
from fedloom.data.federation import Federation, Ragged
from fedloom.data.public_arrays import IN_MEMORY, PublicArrays
from fedloom.data.public_samples import (
    append_samples,
    has_targets,
    read_public_file,
    refuse_later_data,
    without_targets,
)
from fedloom.data.tables.table_columns import USUAL_COLUMNS, TableColumns

SETTING = "communal"


@dataclass(frozen=True)
class Communal:
    """The settings of a communal set, as a task's configuration holds them (``task.communal``).

    Args:
        share: The share of each client's training samples that is set aside.
        path: A file of samples instead: an NPZ file, or a table if the task's data are one.
        labelled: Whether the samples keep their labels; a file without targets has none to keep.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    share: OpenShare | None = None
    path: str | None = None
    labelled: bool = True

    def __post_init__(self) -> None:
        check_settings(self, "communal")
        if (self.share is None) == (self.path is None):
            raise FedloomError("communal: give the share of the training data, or the path of a file, not both.")


def share_as_table(value: object, kind: type, key: str, example: str) -> object:
    """The table of settings that a number is short for: ``0.2`` is ``{share = 0.2}``.

    Args:
        value: A share, a table, or the settings themselves; anything else is refused.
        kind: The class of the settings.
        key: What the value is called.
        example: A table, for the refusal.
    """
    if value is None or isinstance(value, Mapping | kind):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"share": value}
    raise argument_error(key, value, f"give a share between 0 and 1, or a table, for instance {example}")


def communal_table(value: object) -> object:
    """The value of ``task.communal`` as a table."""
    return share_as_table(value, Communal, "task.communal", "{path = 'public.npz'} for a file")


def with_communal_set(
    federation: Federation,
    communal: Communal | PublicArrays,
    seed: int = 0,
    table: TableColumns = USUAL_COLUMNS,
) -> Federation:
    """A federation with a communal set: a share of all clients' training data, or the samples of a file or of arrays.

    Args:
        federation: The federation; it must have no communal set yet.
        communal: Where the samples come from, and whether they keep their labels; or the samples.
        seed: The seed of the choice.
        table: Which columns of a table are not inputs.
    """
    if len(federation.communal):
        raise FedloomError("communal: these data have a communal set already: leave out communal or the other setting.")
    refuse_later_data(federation, SETTING)
    labelled = communal.labelled
    if isinstance(communal, PublicArrays):
        source = IN_MEMORY
        left, chosen = append_samples(federation, communal.samples(federation, SETTING), SETTING, source)
    elif communal.share is not None:
        left, chosen = carve(federation, communal.share, SETTING, seed)
        source = f"{communal.share:.4g} of every client's training samples"
    else:
        path = Path(str(communal.path)).expanduser()
        labelled = labelled and has_targets(path, table)
        samples = read_public_file(path, federation, labelled, table)
        left, chosen = append_samples(federation, samples, SETTING, path.name)
        source = path.name
    if not labelled:
        left = without_targets(left, chosen, SETTING)
    note = f"communal: {len(chosen):,} samples that everyone may see, {source}"
    notes = (*left.notes, f"{note}{'' if labelled else ', without labels'}.")
    return replace(left, communal=chosen, communal_labelled=labelled, notes=notes)


def with_communal(federation: Federation, per_class: int, seed: int = 0) -> Federation:
    """A federation whose communal set is ``per_class`` samples of each class from the global test set.

    They leave the global test set and every client's test part. A rare class gives at most half of its test samples.
    Samples with groups are taken group by group, and what is left of these groups is in no part.
    """
    labels, held = federation.columns["y"], federation.global_test
    group = torch.arange(len(labels)) if federation.group is None else federation.group
    check_value("communal_per_class", per_class, WholeNumber)
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
