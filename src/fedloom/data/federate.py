"""From columns to a federation: set the global test set aside, divide the rest, split each client's own share.

The work is a few sorts of one vector of owners: there is no loop over clients, and no column is copied. Each purpose
has one random generator that draws a number for every sample, so the choice for a sample does not depend on the number
of clients.

Samples that overlap their neighbours (windows of a text or a signal) are split in order within a block: the last
ones are for testing, and samples between two parts are dropped, so a test window shares nothing with a training window.
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
from fedloom.data.federation import Federation, Ragged
from fedloom.data.partition.base import Partition, Partitioner
from fedloom.data.partition.natural import Natural

TRAIN, VALID, TEST, NOBODY = 0, 1, 2, 3


@dataclass(frozen=True)
class Samples:
    """What a reader returns: columns, and what is known about their samples.

    ``natural`` is a key number per sample and ``names`` the keys' names; ``global_test`` the positions of the official
    test set; ``own_test`` marks samples that belong to their client's published test part. Samples with the same number
    in ``blocks`` belong to one natural client, are in order, and overlap their next ``gap`` neighbours.
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
    pool = np.ones(len(labels), dtype=bool)
    natural = samples.natural if isinstance(partitioner, Natural) else None
    strata = samples.blocks if samples.blocks is not None else natural
    if strata is None:
        strata = labels if labels.ndim == 1 else np.zeros(len(labels), dtype=np.int64)
    if samples.global_test is not None:
        held = np.sort(np.asarray(samples.global_test, dtype=np.int64))
        pool[held] = False
    elif samples.own_test is not None:
        held = np.zeros(0, dtype=np.int64)  # the clients' published test parts together, below
    else:
        held = _hold_out(pool, strata, global_share, seed, "global test", samples)
    communal = _hold_out(pool, strata, communal_share, seed, "communal", samples)

    left = np.flatnonzero(pool)
    keys = None if samples.natural is None else samples.natural[left]
    owners, count = _owners(partitioner, labels[left], clients, seed, keys)
    positions, owners = left[owners >= 0], owners[owners >= 0]
    part = _split(positions, owners, samples, natural is not None, test_share, valid_share, seed)
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
    )


def _owners(
    partitioner: Partitioner, labels: np.ndarray, clients: int | None, seed: int, natural: np.ndarray | None
) -> tuple[np.ndarray, int]:
    """The client of each sample, or -1, and the number of clients; a user-defined partitioner returns lists."""
    if isinstance(partitioner, Partition):
        return partitioner.divide(labels, clients, seed, natural)
    shares = partitioner(labels, clients, seed, natural)
    owners = np.full(len(labels), -1, dtype=np.int32)
    for client, share in enumerate(shares):
        if (owners[share] >= 0).any():
            raise FedloomError(f"the partition gives client {client} samples of other clients: give each sample once.")
        owners[share] = client
    return owners, len(shares)


def _check_shares(test: float, valid: float, whole: float, communal: float) -> None:
    shares = {"test_share": test, "valid_share": valid, "global_share": whole, "communal_share": communal}
    for name, share in shares.items():
        if not 0 <= share < 1:
            raise FedloomError(f"{name}={share}: a share must be at least 0 and less than 1.")
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
    if labels.ndim == 1 and not 0 <= labels.min() <= labels.max() < samples.classes:
        wrong = int(np.flatnonzero((labels < 0) | (labels >= samples.classes))[0])
        raise FedloomError(
            f"label {labels[wrong]} of sample {wrong + 1} is out of range: {samples.classes} classes "
            f"are numbered 0 to {samples.classes - 1}."
        )
    return labels


def _from_end(groups: np.ndarray, numbers: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The distance of each sample from the end of its group, and the sizes of the groups.

    Within a group samples keep their order, or are ordered by ``numbers``.
    """
    sizes = np.bincount(groups)
    keys = groups
    if numbers is not None:  # non-negative floats sort like their bits: one sort, not two
        keys = (groups.astype(np.int64) << 32) | numbers.view(np.int32)
    order = np.argsort(keys, kind="stable")
    far = np.empty(len(groups), dtype=np.int32)
    far[order] = np.repeat(np.cumsum(sizes, dtype=np.int32), sizes) - np.arange(1, len(groups) + 1, dtype=np.int32)
    return far, sizes


def _hold_out(
    pool: np.ndarray, strata: np.ndarray, share: float, seed: int, purpose: str, samples: Samples
) -> np.ndarray:
    """Take a share of each stratum out of the pool (a mask, changed in place) and return its positions."""
    if share == 0:
        return np.zeros(0, dtype=np.int64)
    inside = np.flatnonzero(pool)
    ordered = samples.blocks is not None
    numbers = None if ordered else numpy_generator(seed, purpose).random(len(pool), dtype=np.float32)[inside]
    group = strata[inside]
    far, sizes = _from_end(group, numbers)
    take = np.floor(sizes * share + 0.5).astype(np.int64)
    if take.sum() == 0 and numbers is not None:  # many tiny strata: take from those that can spare a sample
        spare = far < (sizes - 2)[group]
        inside, numbers = inside[spare], numbers[spare]
        group = np.zeros(len(inside), dtype=np.int64)
        far, sizes = _from_end(group, numbers)
        take = np.minimum(sizes, int(pool.sum() * share + 0.5))
    gap = np.where(take > 0, samples.gap if ordered else 0, 0)
    gap = np.minimum(gap, np.maximum(sizes - take - 2, 0))
    pool[inside[far < (take + gap)[group]]] = False
    held: np.ndarray = inside[far < take[group]]
    return held


def _split(
    positions: np.ndarray,
    owners: np.ndarray,
    samples: Samples,
    by_nature: bool,
    test_share: float,
    valid_share: float,
    seed: int,
) -> np.ndarray:
    """The part (train, valid, test or none) of each position, decided within each owner."""
    part = np.full(len(positions), TRAIN, dtype=np.int8)
    mine = np.arange(len(positions))
    if samples.own_test is not None:
        flags = samples.own_test[positions]
        part[flags] = TEST
        mine, test_share = mine[~flags], 0.0
    ordered = by_nature and samples.blocks is not None
    group, gap, numbers = owners[mine], 0, None
    if ordered and samples.blocks is not None:
        group, gap = samples.blocks[positions[mine]], samples.gap
    else:
        numbers = numpy_generator(seed, "split").random(len(samples.columns["y"]), dtype=np.float32)[positions[mine]]
    far, sizes = _from_end(group, numbers)
    test, valid = _amounts(sizes, test_share, valid_share)
    test = np.where(sizes - test - gap < 1, 0, test) if gap else test
    to_valid = test + np.where(test > 0, gap, 0)
    valid = np.where(sizes - to_valid - valid - gap < 1, 0, valid) if gap else valid
    to_train = to_valid + valid + np.where(valid > 0, gap, 0)
    part[mine[far < to_train[group]]] = NOBODY
    part[mine[(far >= to_valid[group]) & (far < (to_valid + valid)[group])]] = VALID
    part[mine[far < test[group]]] = TEST
    return part


def _amounts(sizes: np.ndarray, test_share: float, valid_share: float) -> tuple[np.ndarray, np.ndarray]:
    """Test and validation samples per group. Training gets at least one first, then testing, then validation."""
    test = np.floor(sizes * test_share + 0.5).astype(np.int64)
    test = np.clip(test, 1 if test_share else 0, np.maximum(sizes - 1, 0))
    valid = np.floor(sizes * valid_share + 0.5).astype(np.int64)
    valid = np.clip(valid, 1 if valid_share else 0, np.maximum(sizes - test - 1, 0))
    return test, valid
