"""Partitioners by name: what a config file or a command line writes, and back.

``partitioner("dirichlet(0.1)")``, ``partitioner({"name": "dirichlet", "alpha": 0.1})`` and ``dirichlet(0.1)`` are the
same object, and ``partition_config`` writes any of them out complete.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from fedloom.core.errors import FedloomError, unknown
from fedloom.data.partition import partitioners as p
from fedloom.data.partition.label_skew import ClassesPerClient, Dirichlet, Shards

PARTITIONS: dict[str, type[p.Partition]] = {
    "iid": p.Iid,
    "dirichlet": Dirichlet,
    "shards": Shards,
    "classes-per-client": ClassesPerClient,
    "quantities": p.Quantities,
    "power-law": p.PowerLaw,
    "natural": p.Natural,
}


def partition_summary(name: str) -> str:
    """The first line of a partitioner's docstring, for lists."""
    return (PARTITIONS[name].__doc__ or "").strip().splitlines()[0]


def partitioner(spec: p.Partitioner | str | Mapping[str, Any]) -> p.Partitioner:
    """The partitioner that a name, a ``name(numbers)`` string or a mapping with ``name`` means."""
    if isinstance(spec, str):
        match = re.fullmatch(r"\s*([\w-]+)\s*(?:\((.*)\))?\s*", spec)
        if not match:
            raise FedloomError(f"partition '{spec}': write a name with its numbers, for example dirichlet(0.1).")
        name = match[1].lower().replace("_", "-")
        numbers = [_number(text, spec) for text in (match[2] or "").split(",") if text.strip()]
        made = _named(name)
        if made is p.Quantities:
            return _make(made, name, {"sizes": tuple(numbers)})
        return _make(made, name, dict(zip([f.name for f in fields(made)], numbers, strict=False)))  # type: ignore[arg-type]
    if isinstance(spec, Mapping):
        options = dict(spec)
        name = str(options.pop("name", "")).lower().replace("_", "-")
        return _make(_named(name), name, options)
    return spec


def partition_config(made: p.Partitioner) -> dict[str, Any]:
    """The mapping that ``partitioner`` turns back into an equal partitioner, every option written out."""
    for name, kind in PARTITIONS.items():
        if type(made) is kind:
            options = asdict(made)  # type: ignore[call-overload]
            return {"name": name} | {k: list(v) if isinstance(v, tuple) else v for k, v in options.items()}
    return {"name": getattr(made, "__qualname__", type(made).__qualname__)}


def _named(name: str) -> type[p.Partition]:
    if name not in PARTITIONS:
        raise unknown("partition", name, PARTITIONS)
    return PARTITIONS[name]


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


def _make(kind: type[p.Partition], name: str, options: Mapping[str, Any]) -> p.Partition:
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    for option in options:
        if option not in known:
            raise unknown(f"option of the partition {name}", option, known)
    try:
        return kind(**options)
    except TypeError:
        missing = ", ".join(sorted(known - set(options)))
        raise FedloomError(f"the partition '{name}' needs more than was given (it takes {missing}).") from None


def iid(stratified: bool = False) -> p.Iid:
    """Equal random shares, or class-stratified ones."""
    return p.Iid(stratified)


def dirichlet(alpha: float, minimum: int = 10) -> Dirichlet:
    """Label skew by Dir(alpha), every client with at least ``minimum`` samples; alpha 0 is one class per client."""
    return Dirichlet(alpha, minimum)


def shards(per_client: int = 2) -> Shards:
    """McMahan's pathological split: ``per_client`` random label shards each."""
    return Shards(per_client)


def classes_per_client(per_client: int = 2) -> ClassesPerClient:
    """Exactly ``per_client`` classes for each client."""
    return ClassesPerClient(per_client)


def quantities(sizes: Sequence[int]) -> p.Quantities:
    """Client k gets ``sizes[k]`` random samples."""
    return p.Quantities(tuple(sizes))


def power_law(exponent: float = 1.0, minimum: int = 2) -> p.PowerLaw:
    """Sizes that fall as rank^-exponent."""
    return p.PowerLaw(exponent, minimum)


def natural(minimum: int = 1) -> p.Natural:
    """One client per natural key with at least ``minimum`` samples."""
    return p.Natural(minimum)
