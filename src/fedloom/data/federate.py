"""From columns to a federation: set the global test set aside, divide the rest, split each client's own share.

The work is a few sorts of one vector of owners: there is no loop over clients, and no column is copied. Each purpose
has one random generator that draws a number for every sample, so the choice for a sample does not depend on the number
of clients.

Samples of one group (``data/leak_groups.py``) are never on two sides: frames of a video, visits of a patient. Samples
that overlap their neighbours (windows of a text or a signal) are split in order within a block: the last ones are for
testing, and samples between two parts are dropped, so a test window shares nothing with a training window. If such data
are not divided by their natural key, blocks are first cut into groups of windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.inputs import PREFIX
from fedloom.core.seeds import numpy_generator
from fedloom.core.settings import ShareBelowOne, check_value
from fedloom.core.targets import target_kind
from fedloom.data.federation import Federation, Ragged
from fedloom.data.leak_groups import Units, cut_windows, refuse_split_groups
from fedloom.data.partition.base import Partition, Partitioner
from fedloom.data.partition.natural import Natural
from fedloom.data.partition.quantity_skew import Quantities
from fedloom.data.split import TEST, TRAIN, VALID, hold_out, split


@dataclass(frozen=True)
class Samples:
    """What a reader returns: columns, and what is known about their samples.

    ``natural`` is a key number per sample and ``names`` the keys' names; ``global_test`` the positions of the official
    test set; ``own_test`` marks samples that belong to their client's published test part. Samples with the same number
    in ``blocks`` belong to one natural client, are in order, and overlap their next ``gap`` neighbours. Samples with
    the same number in ``group`` belong together: they are never on two sides of a split. ``notes`` say what was made of
    a user's own data.
    """

    columns: Mapping[str, Tensor]
    classes: int
    class_names: Sequence[str] = ()
    natural: np.ndarray | None = None
    names: Sequence[str] = ()
    global_test: np.ndarray | None = None
    own_test: np.ndarray | None = None
    blocks: np.ndarray | None = None
    gap: int = 0
    group: np.ndarray | None = None
    notes: Sequence[str] = ()


def federate(
    samples: Samples,
    partitioner: Partitioner,
    clients: int | None = None,
    *,
    seed: int = 0,
    test_share: float = 0.2,
    valid_share: float = 0.0,
    global_share: float = 0.15,
    communal_share: float = 0.0,
    title: str = "",
) -> Federation:
    """Divide samples among clients, and split each client's samples into train, validation and test parts.

    A client with two samples or more keeps at least one for training and, if ``test_share`` is not 0, one for testing.
    If samples have groups, this holds for groups, and shares are met as nearly as whole groups allow.

    Args:
        samples: The columns to divide.
        partitioner: How samples are divided among clients.
        clients: The number of clients; None if the partitioner determines it.
        seed: The seed of all random choices.
        test_share: The share of each client's samples for testing.
        valid_share: The share of each client's samples for validation.
        global_share: The share of all samples for the global test set, taken before the division: stratified by class,
            or per client if clients are natural. An official test set is used instead where there is one.
        communal_share: The share of all samples that is set aside for everyone to see.
        title: What reports and errors call the data.
    """
    _check_shares(test_share, valid_share, global_share, communal_share)
    labels = _check_columns(samples)
    group = samples.group
    if group is not None and samples.blocks is not None:
        raise FedloomError("the samples have blocks and groups: give blocks for windows in order, groups for the rest.")

    def random_numbers(purpose: str) -> np.ndarray | None:
        ordered = samples.blocks is not None
        return None if ordered else numpy_generator(seed, purpose).random(len(labels), dtype=np.float32)

    pool = np.ones(len(labels), dtype=bool)
    natural = samples.natural if isinstance(partitioner, Natural) else None
    strata = samples.blocks if samples.blocks is not None else natural
    if strata is None:
        strata = labels if _are_classes(labels) else np.zeros(len(labels), dtype=np.int64)
    if samples.global_test is not None:
        held = np.sort(np.asarray(samples.global_test, dtype=np.int64))
        pool[held] = False
        refuse_split_groups(group, ~pool, "global test set")
    elif samples.own_test is not None:
        held = np.zeros(0, dtype=np.int64)  # the clients' published test parts together, below
    else:
        held = hold_out(pool, strata, global_share, group, random_numbers("global test"), samples.gap)
    communal = hold_out(pool, strata, communal_share, group, random_numbers("communal"), samples.gap)

    if samples.blocks is not None and samples.gap and natural is None:
        group = np.full(len(labels), -1, dtype=np.int64)
        group[pool] = cut_windows(samples.blocks[pool], samples.gap)
        pool &= group >= 0
    left = np.flatnonzero(pool)
    owners, count = _owners(partitioner, labels, clients, seed, samples.natural, group, left)
    positions, owners = left[owners >= 0], owners[owners >= 0]
    part = _split(positions, owners, samples, natural is not None, group, test_share, valid_share, seed)
    train, valid, test = (
        Ragged.by_owner(positions[part == code], owners[part == code], count) for code in (TRAIN, VALID, TEST)
    )
    if samples.own_test is not None and samples.global_test is None:
        held = np.sort(test.order.numpy())
    names: Sequence[str] = ()
    if natural is not None:
        key_of = np.zeros(count, dtype=np.int64)
        key_of[owners] = natural[positions]
        names = [samples.names[key] for key in key_of.tolist()] if len(samples.names) else [str(key) for key in key_of]
    return Federation(
        columns=samples.columns,
        train=train,
        test=test,
        valid=valid,
        classes=samples.classes,
        global_test=torch.from_numpy(held),
        communal=torch.from_numpy(communal),
        names=names,
        class_names=tuple(samples.class_names),
        title=title,
        group=_communal_groups(samples),
        notes=tuple(samples.notes),
    )


def _communal_groups(samples: Samples) -> torch.Tensor | None:
    """The groups of a federation: those of the samples, or the blocks of overlapping windows."""
    group = samples.blocks if samples.gap else samples.group
    return None if group is None else torch.from_numpy(np.asarray(group, dtype=np.int64))


def _owners(
    partitioner: Partitioner,
    labels: np.ndarray,
    clients: int | None,
    seed: int,
    natural: np.ndarray | None,
    group: np.ndarray | None,
    left: np.ndarray,
) -> tuple[np.ndarray, int]:
    """The client of each sample in ``left``, or -1, and the number of clients; groups are divided whole."""
    labels, natural = labels[left], None if natural is None else natural[left]
    if group is None or isinstance(partitioner, Natural):
        return _divide(partitioner, labels, clients, seed, natural)
    if isinstance(partitioner, Quantities):
        raise FedloomError(
            "the partition 'quantities' gives exact numbers of samples, but samples of a group stay together: "
            "use iid, power-law or dirichlet."
        )
    units = Units.among(group[left], len(left))
    if clients is not None and clients > len(units.first):
        raise FedloomError(
            f"clients={clients}, but there are only {len(units.first)} groups of samples that stay together: use at "
            f"most {len(units.first)} clients."
        )
    keys = None if natural is None else natural[units.first]
    owners, count = _divide(partitioner, units.labels(labels), clients, seed, keys)
    return owners[units.of], count


def _divide(
    partitioner: Partitioner, labels: np.ndarray, clients: int | None, seed: int, natural: np.ndarray | None
) -> tuple[np.ndarray, int]:
    """The client of each unit, or -1, and the number of clients; a user-defined partitioner returns lists."""
    if isinstance(partitioner, Partition):
        return partitioner.divide(labels, clients, seed, natural)
    shares = partitioner(labels, clients, seed, natural)
    owners = np.full(len(labels), -1, dtype=np.int32)
    for client, share in enumerate(shares):
        if (owners[share] >= 0).any():
            raise FedloomError(f"the partition gives client {client} samples of other clients: give each sample once.")
        owners[share] = client
    return owners, len(shares)


def _split(
    positions: np.ndarray,
    owners: np.ndarray,
    samples: Samples,
    by_nature: bool,
    group: np.ndarray | None,
    test_share: float,
    valid_share: float,
    seed: int,
) -> np.ndarray:
    """The part (train, valid, test or none) of each position, decided within each owner or block."""
    part = np.full(len(positions), TRAIN, dtype=np.int8)
    mine = np.arange(len(positions))
    if samples.own_test is not None:
        refuse_split_groups(group, samples.own_test, "clients' test parts")
        flags = samples.own_test[positions]
        part[flags] = TEST
        mine, test_share = mine[~flags], 0.0
    places = positions[mine]
    if by_nature and samples.blocks is not None:
        part[mine] = split(samples.blocks[places], None, None, samples.gap, test_share, valid_share)
        return part
    numbers = numpy_generator(seed, "split").random(len(samples.columns["y"]), dtype=np.float32)[places]
    part[mine] = split(owners[mine], None if group is None else group[places], numbers, 0, test_share, valid_share)
    return part


def _check_shares(test: float, valid: float, whole: float, communal: float) -> None:
    shares = {"test_share": test, "valid_share": valid, "global_share": whole, "communal_share": communal}
    for name, share in shares.items():
        check_value(name, share, ShareBelowOne)
    if test + valid >= 1:
        raise FedloomError(f"test_share={test} and valid_share={valid} leave nothing for training: lower them.")
    if whole + communal >= 1:
        raise FedloomError(f"global_share={whole} and communal_share={communal} leave nothing for clients: lower them.")


def _check_columns(samples: Samples) -> np.ndarray:
    lengths = {name: len(column) for name, column in samples.columns.items()}
    if "y" not in lengths or not ("x" in lengths or any(name.startswith(PREFIX) for name in lengths)):
        raise FedloomError(f"the columns are {', '.join(lengths) or 'none'}: a federation needs x and y.")
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise FedloomError(f"the columns differ in length ({shown}): give one entry per sample in each.")
    if lengths["y"] == 0:
        raise FedloomError("there are no samples: a federation needs at least one.")
    labels = samples.columns["y"].numpy()
    if _are_classes(labels) and not 0 <= labels.min() <= labels.max() < samples.classes:
        wrong = int(np.flatnonzero((labels < 0) | (labels >= samples.classes))[0])
        raise FedloomError(
            f"label {labels[wrong]} of sample {wrong + 1} is out of range: {samples.classes} classes "
            f"are numbered 0 to {samples.classes - 1}."
        )
    return labels


def _are_classes(labels: np.ndarray) -> bool:
    return target_kind(torch.from_numpy(labels)) == "classes"
