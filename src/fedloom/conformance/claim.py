"""A claim is a sentence that must be true of a method; its result is the error with which it holds."""

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
"""Allowed relative error of a run in single precision against a solution in double precision."""


@dataclass(frozen=True)
class Claim:
    """A sentence about a method, and a function that returns the (relative) error with which it holds."""

    says: str
    error: Callable[[Algorithm], float]
    within: float = PRECISE


@dataclass(frozen=True)
class ClaimResult:
    """The result of checking a claim."""

    method: str
    says: str
    error: float
    within: float
    seconds: float
    raised: str = ""
    """What the method raised, with the line of its file; empty if the claim was measured."""

    @property
    def holds(self) -> bool:
        """Whether the error is within its bound (NaN is not, nor is a claim that could not be measured)."""
        return self.error <= self.within


def settle(method: Algorithm, problem: Quadratics, rounds: int = ROUNDS, **settings: Any) -> MethodRun:
    """Run a method on quadratics, by default for enough rounds to reach its fixed point."""
    return run_method(problem.task(), method, rounds, WORK, **settings)
