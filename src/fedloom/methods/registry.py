"""Methods by name: case does not matter, common aliases work, and a user-defined method is named by its file.

``fedloom.methods`` registers every method when it is imported, so a method may look up another one by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError, unknown
from fedloom.registry.names import canonical_name
from fedloom.registry.spec import split_spec
from fedloom.registry.user_classes import user_class, user_class_name
from fedloom.registry.validation import validate

METHODS: dict[str, type[Algorithm]] = {}
"""Every method of the library under its name."""
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


def register(*classes: type[Algorithm]) -> None:
    """Add methods to the table under their class names in lower case."""
    METHODS.update({method.__name__.lower(): method for method in classes})


def canonical_method(name: str) -> str:
    """The registered spelling of a method's name: ``LG-FedAvg`` and ``lg_fedavg`` are ``lgfedavg``."""
    return canonical_name(name, METHODS, ALIASES)


def method_class(name: str) -> type[Algorithm]:
    """The class of a method: a registered name, ``file.py:Class`` or ``package.module:Class``."""
    if ":" in name:
        return user_class(name, Algorithm, "method")
    known = METHODS.get(canonical_method(name))
    if known is None:
        raise unknown("method", name, METHODS)
    return known


def method_name(method: Algorithm) -> str:
    """The name under which ``method_class`` finds the class of a method."""
    kind = type(method)
    return next((name for name, known in METHODS.items() if known is kind), user_class_name(kind))


def make_method(spec: str | Mapping[str, Any]) -> Algorithm:
    """A method from ``{"name": ..., settings}`` or from its spelling on the command line (``fedprox:mu=0.1``)."""
    if isinstance(spec, str):
        name, settings = split_spec(spec)
        spec = {"name": name, **settings}
    settings = dict(spec)
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise FedloomError("a method needs a name, for instance fedavg (see fedloom list methods).")
    method: Algorithm = validate(method_class(name), settings, f"method {name}")
    return method
