"""Partitioners by name: from what a config file or the command line says, and back.

``partitioner("dirichlet(0.1)")``, ``partitioner({"name": "dirichlet", "alpha": 0.1})`` and ``dirichlet(0.1)`` are the
same object, and ``partition_config`` writes any of them out complete.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, fields
from typing import Any

from fedloom.core.errors import FedloomError, unknown
from fedloom.data.partition.base import Partition, Partitioner
from fedloom.data.partition.iid import Iid
from fedloom.data.partition.label_skew import ClassesPerClient, Dirichlet, Shards
from fedloom.data.partition.natural import Natural
from fedloom.data.partition.quantity_skew import PowerLaw, Quantities
from fedloom.registry.kinds import PARTITIONS


def partitioner(spec: Partitioner | str | Mapping[str, Any]) -> Partitioner:
    """The partitioner of a specification: a name, ``name(numbers)``, a mapping with ``name``, or a partitioner."""
    if isinstance(spec, str):
        match = re.fullmatch(r"\s*([\w-]+)\s*(?:\((.*)\))?\s*", spec)
        if not match:
            raise FedloomError(f"partition '{spec}': write a name with its numbers, for example dirichlet(0.1).")
        name = PARTITIONS.canonical(match[1])
        numbers = [_number(text, spec) for text in (match[2] or "").split(",") if text.strip()]
        made = PARTITIONS.find(name)
        if made is Quantities:
            return _make(made, name, {"sizes": tuple(numbers)})
        return _make(made, name, dict(zip([f.name for f in fields(made)], numbers, strict=False)))
    if isinstance(spec, Mapping):
        options = dict(spec)
        name = PARTITIONS.canonical(str(options.pop("name", "")))
        return _make(PARTITIONS.find(name), name, options)
    return spec


def partition_config(made: Partitioner) -> dict[str, Any]:
    """The mapping that ``partitioner`` turns back into an equal partitioner, every option written out."""
    name = PARTITIONS.name_of(type(made))
    if name is None:
        return {"name": getattr(made, "__qualname__", type(made).__qualname__)}
    options = asdict(made)  # type: ignore[call-overload]
    return {"name": name} | {k: list(v) if isinstance(v, tuple) else v for k, v in options.items()}


def complete_partition(made: Partitioner) -> Partitioner | dict[str, Any]:
    """The config of a partitioner, or the partitioner itself if it is a user's function, which no config can name."""
    return made if PARTITIONS.name_of(type(made)) is None else partition_config(made)


def _number(text: str, spec: str) -> float | int | bool:
    text = text.strip().rpartition("=")[2].strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise FedloomError(f"partition '{spec}': '{text}' is not a number.") from None


def _make(kind: type[Partition], name: str, options: Mapping[str, Any]) -> Partition:
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    for option in options:
        if option not in known:
            raise unknown(f"option of the partition {name}", option, known)
    missing = [f.name for f in fields(kind) if f.default is MISSING and f.name not in options]  # type: ignore[arg-type]
    if missing:
        raise FedloomError(f"the partition '{name}' needs a value for {', '.join(missing)}.")
    try:
        return kind(**options)
    except TypeError as error:
        raise FedloomError(f"the partition '{name}' has an option of the wrong type ({error}).") from None


def iid(stratified: bool = False) -> Iid:
    """Equal random shares.

    Args:
        stratified: Whether every client also gets an equal share of each class.
    """
    return Iid(stratified)


def dirichlet(alpha: float, minimum: int = 10) -> Dirichlet:
    """Label skew: each class is divided among clients by shares drawn from Dir(alpha).

    Args:
        alpha: The concentration. A small alpha is a strong skew; 0 gives each client samples of one class.
        minimum: The fewest samples a client may have.
    """
    return Dirichlet(alpha, minimum)


def shards(per_client: int = 2) -> Shards:
    """The pathological split of McMahan et al. (2017): samples are sorted by label and cut into equal shards.

    Args:
        per_client: How many random shards each client gets.
    """
    return Shards(per_client)


def classes_per_client(per_client: int = 2) -> ClassesPerClient:
    """Label skew with a fixed number of classes per client.

    Args:
        per_client: How many classes each client holds.
    """
    return ClassesPerClient(per_client)


def quantities(sizes: Sequence[int]) -> Quantities:
    """Quantity skew by a list of sizes.

    Args:
        sizes: Client k gets ``sizes[k]`` random samples; the rest belong to no client.
    """
    return Quantities(tuple(sizes))


def power_law(exponent: float = 1.0, minimum: int = 2) -> PowerLaw:
    """Quantity skew: the r-th largest client has a size proportional to r^-exponent.

    Args:
        exponent: How fast sizes fall; 0 gives equal sizes.
        minimum: The fewest samples a client may have.
    """
    return PowerLaw(exponent, minimum)


def natural(minimum: int = 1) -> Natural:
    """One client per natural key of the data: a writer, a speaker, the client column of a table.

    Args:
        minimum: Keys with fewer samples are left out.
    """
    return Natural(minimum)
