"""What a claim is: a sentence that must be true of a method, and how far from true it turned out to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedloom.conformance.quadratics import LR, STEPS, Quadratics
from fedloom.conformance.run_method import MethodRun, run_method
from fedloom.core.algorithm import Algorithm

WORK: dict[str, Any] = {"lr": LR, "steps": STEPS, "batch_size": 0}
"""Local work of the checks on quadratics: whole-batch gradient steps."""
FEW: dict[str, Any] = {"number": 2}
"""Partial participation: two clients of five."""
ROUNDS = 50
PRECISE = 1e-4
"""How near single precision must come to a point that was solved for in double precision."""


@dataclass(frozen=True)
class Claim:
    """A sentence, and a function that gives the (relative) error with which it holds for a method."""

    says: str
    error: Callable[[Algorithm], float]
    within: float = PRECISE


@dataclass(frozen=True)
class ClaimResult:
    """What became of a claim."""

    method: str
    says: str
    error: float
    within: float
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether the error is within its bound (a NaN is not)."""
        return self.error <= self.within


def settle(method: Algorithm, problem: Quadratics, rounds: int = ROUNDS, **settings: Any) -> MethodRun:
    """A method after so many rounds on quadratics that it has stopped moving."""
    return run_method(problem.task(), method, rounds, WORK, **settings)
