"""Names of earlier versions are refused with a sentence that says what they are now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import NoReturn, TypeVar

from fedloom.core.errors import FedloomError

Class = TypeVar("Class", bound=type)

MODULES = {
    "fedloom.algorithms": "fedloom.methods",
    "fedloom.engine": "fedloom.engines",
    "fedloom.errors": "fedloom.core.errors",
    "fedloom.flows": "fedloom.tasks.flows",
    "fedloom.graphs": "fedloom.tasks.graphs",
    "fedloom.personal": "fedloom.prediction",
    "fedloom.conformance.play": "fedloom.conformance.run_method",
    "fedloom.core.execution": "fedloom.training.execution",
    "fedloom.core.local": "fedloom.training.local_trainer",
    "fedloom.core.pool": "fedloom.core.selector",
    "fedloom.core.site": "fedloom.core.server_context",
    "fedloom.core.stage": "fedloom.core.prediction_stage",
    "fedloom.core.stacked": "fedloom.core.pull",
    "fedloom.core.work": "fedloom.core.local_work",
    "fedloom.data.drift": "fedloom.data.changes.concept_drift",
    "fedloom.data.own": "fedloom.data.read",
    "fedloom.data.partitions": "fedloom.data.partition.partitioner",
    "fedloom.data.withhold": "fedloom.data.changes.withheld_class",
    "fedloom.deploy.saved": "fedloom.deploy.saved_model",
    "fedloom.models.block": "fedloom.models.graph_network_block",
    "fedloom.report": "fedloom.reports",
    "fedloom.runs.advice": "fedloom.runs.plans.advise.advice",
    "fedloom.runs.advise": "fedloom.runs.plans.advise.advise",
    "fedloom.runs.sweep": "fedloom.runs.plans.sweep",
}
"""Documented modules of earlier versions, the homes of public names among them, and where they are now."""


class RenamedModules:
    """The last finder that an import asks: it refuses the modules of earlier versions.

    It is no ``importlib.abc.MetaPathFinder``: importing that would take half of the time of ``import fedloom``.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name in MODULES:
            raise ModuleNotFoundError(f"The module {name} is now {MODULES[name]}.", name=name)


def refuse_renamed(module: str, name: str, renamed: Mapping[str, str]) -> None:
    """Refuse an old name of a module, from its ``__getattr__``.

    The error is an ImportError: ``from fedloom import own`` would hide the sentence of an AttributeError.
    """
    if name in renamed:
        raise ImportError(f"{module}.{name} is now {module}.{renamed[name]}: use the new name.")


class RenamedAttributeError(FedloomError, AttributeError):
    """An attribute of an earlier version was used."""


class RenamedAttribute:
    """An attribute of an earlier version. It counts as missing, and reading it says what it is now."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def __get__(self, instance: object, owner: type) -> NoReturn:
        self.refuse(owner)

    def refuse(self, owner: type) -> NoReturn:
        """Raise the error for a class, or for an object of it, that uses the old name."""
        raise RenamedAttributeError(
            f"{owner.__name__}.{self.old} is now {owner.__name__}.{self.new}: use the new name."
        )


def renamed(**names: str) -> Callable[[Class], Class]:
    """A class decorator that refuses attributes of earlier versions: ``@renamed(old="new")``."""

    def mark(cls: Class) -> Class:
        for old, new in names.items():
            setattr(cls, old, RenamedAttribute(old, new))
        return cls

    return mark
