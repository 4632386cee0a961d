"""Methods by name: case does not matter, the usual aliases work, and a method of one's own is named by its file."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

from fedloom.algorithms.baselines import Centralised, FedSGD, Local
from fedloom.algorithms.fedavg import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedProx, FedYogi
from fedloom.core.algorithm import Algorithm
from fedloom.errors import FedloomError, unknown

METHODS: dict[str, type[Algorithm]] = {
    kind.__name__.lower(): kind
    for kind in (Local, Centralised, FedSGD, FedAvg, FedProx, FedAvgM, FedAdagrad, FedAdam, FedYogi)
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
        return _own(name)
    known = METHODS.get(canonical(name))
    if known is None:
        raise unknown("method", name, METHODS)
    return known


def _own(name: str) -> type[Algorithm]:
    where, _, kind = name.rpartition(":")
    try:
        if where.endswith(".py"):
            path = Path(where)
            inside = f"fedloom_own_{path.stem}"  # never the name of a module that others import
            spec = importlib.util.spec_from_file_location(inside, path)
            if spec is None or spec.loader is None or not path.is_file():
                raise FedloomError(f"method '{name}': there is no file {where}.")
            module = importlib.util.module_from_spec(spec)
            sys.modules[inside] = module
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(where)
    except FedloomError:
        raise
    except Exception as error:  # whatever the user's own file raises
        raise FedloomError(f"method '{name}': {where} cannot be imported ({type(error).__name__}: {error}).") from error
    found = getattr(module, kind, None)
    if not (isinstance(found, type) and issubclass(found, Algorithm)):
        raise FedloomError(f"method '{name}': {where} has no class {kind} that is a fedloom Algorithm.")
    return found
