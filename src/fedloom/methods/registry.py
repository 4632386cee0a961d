"""Methods by name: case does not matter, the usual aliases work, and a method of one's own is named by its file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError, unknown
from fedloom.core.nested import set_nested
from fedloom.core.user_classes import user_class
from fedloom.core.validation import toml_value, validate
from fedloom.methods.centralised import Centralised
from fedloom.methods.cfl import CFL
from fedloom.methods.ditto import Ditto
from fedloom.methods.fedadagrad import FedAdagrad
from fedloom.methods.fedadam import FedAdam
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.fedavgexit import FedAvgExit
from fedloom.methods.fedavgm import FedAvgM
from fedloom.methods.fedbabu import FedBABU
from fedloom.methods.feddyn import FedDyn
from fedloom.methods.fedgala.fedgala import FedGala
from fedloom.methods.fedgala.fedgalap import FedGalaP
from fedloom.methods.fedhybridavglg import FedHybridAvgLG
from fedloom.methods.fedhybridavglgdual import FedHybridAvgLGDual
from fedloom.methods.fedper import FedPer
from fedloom.methods.fedproto import FedProto
from fedloom.methods.fedprox import FedProx
from fedloom.methods.fedproxexit import FedProxExit
from fedloom.methods.fedrep import FedRep
from fedloom.methods.fedseq.fedseq import FedSeq
from fedloom.methods.fedseq.fedseqinter import FedSeqInter
from fedloom.methods.fedsgd import FedSGD
from fedloom.methods.fedu import FedU
from fedloom.methods.fedyogi import FedYogi
from fedloom.methods.fesem import FeSEM
from fedloom.methods.ifca import IFCA
from fedloom.methods.lgfedavg import LGFedAvg
from fedloom.methods.local import Local
from fedloom.methods.moon import MOON
from fedloom.methods.perfedavg import PerFedAvg
from fedloom.methods.pfedme import PFedMe
from fedloom.methods.scaffold import SCAFFOLD

METHODS: dict[str, type[Algorithm]] = {
    kind.__name__.lower(): kind
    for kind in (
        *(Local, Centralised, FedSGD, FedAvg, FedProx, FedAvgM, FedAdagrad, FedAdam, FedYogi),
        *(SCAFFOLD, FedDyn),
        *(FedPer, LGFedAvg, FedRep, FedBABU),
        *(FedHybridAvgLG, FedHybridAvgLGDual),
        *(CFL, FeSEM, IFCA),
        *(FedSeq, FedSeqInter),
        *(PerFedAvg, PFedMe, FedU, Ditto, MOON, FedProto),
        *(FedAvgExit, FedProxExit, FedGala, FedGalaP),
    )
}
ALIASES = {
    "isolated": "local",
    "localonly": "local",
    "standalone": "local",
    "central": "centralised",
    "centralized": "centralised",
    "federatedaveraging": "fedavg",
    "fedmomentum": "fedavgm",
    "fedopt": "fedadam",
}


def canonical(name: str) -> str:
    """A method's name as this project writes it: ``LG-FedAvg`` and ``lg_fedavg`` are the same."""
    if ":" in name:
        return name
    plain = name.lower().replace("-", "").replace("_", "").replace(" ", "")
    return ALIASES.get(plain, plain)


def find(name: str) -> type[Algorithm]:
    """The class of a method: a known name, ``file.py:Class`` or ``package.module:Class``."""
    if ":" in name:
        return user_class(name, Algorithm, "method")
    known = METHODS.get(canonical(name))
    if known is None:
        raise unknown("method", name, METHODS)
    return known


def made(spec: str | Mapping[str, Any]) -> Algorithm:
    """A method from ``{"name": ..., settings}`` or as it is written on the command line (``fedprox:mu=0.1``)."""
    if isinstance(spec, str):
        name, settings = split_method(spec)
        spec = {"name": name, **settings}
    settings = dict(spec)
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise FedloomError("a method needs a name, for instance fedavg (see fedloom list methods).")
    method: Algorithm = validate(find(name), settings, f"method {name}")
    return method


def split_method(spec: str) -> tuple[str, dict[str, Any]]:
    """``fedprox:mu=0.1,adaptive=true`` as a name and settings; ``file.py:Class`` has none.

    A dotted key is a setting of a setting: ``fedseq:inner.name=fedprox,inner.mu=0.1``.
    """
    head, _, tail = spec.rpartition(":")
    if not head or "=" not in tail:
        return spec, {}
    settings: dict[str, Any] = {}
    for pair in tail.split(","):
        path, _, value = pair.partition("=")
        set_nested(settings, path.strip(), toml_value(value.strip()), spec)
    return head, settings
