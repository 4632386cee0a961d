"""The suite: all claims by method, and their check."""

from __future__ import annotations

import time
from collections.abc import Iterator

from fedloom.conformance.any_method import GENERAL
from fedloom.conformance.claim import Claim, ClaimResult
from fedloom.conformance.descriptors import DESCRIPTORS
from fedloom.conformance.distillation import DISTILLATION
from fedloom.conformance.overlapping_graphs import GRAPHS
from fedloom.conformance.partial_sharing import DECOUPLED
from fedloom.conformance.personal_models import PERSONAL
from fedloom.conformance.prototypes import PROTOTYPES
from fedloom.conformance.self_supervised import SELF_SUPERVISED
from fedloom.conformance.shared_models import SHARED
from fedloom.conformance.widths import WIDTHS
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError, unknown
from fedloom.registry.kinds import METHODS
from fedloom.registry.user_errors import describe_error

FAMILIES = (SHARED, PERSONAL, DECOUPLED, PROTOTYPES, DISTILLATION, DESCRIPTORS, SELF_SUPERVISED, GRAPHS, WIDTHS)
SPECIFIC = {name: tuple(claim for family in FAMILIES for claim in family.get(name, ())) for name in METHODS.builtin}
"""The claims about a single method."""
SUITE_SETTINGS: dict[str, dict[str, float | str]] = {
    "fedavgexit": {"tolerance": 0},
    "fedproxexit": {"tolerance": 0, "adaptive": False},
    "feddyn": {"alpha": 1.0},
    # Adam moves each ratio by its rate whatever its gradient is: where one crosses zero, rounding decides which way.
    "fedfmrl": {"alpha_optimizer": "sgd"},
    "fedharm": {"k": 3},
    "fedhybridavglg": {"threshold": 0},
    "fedhybridavglgdual": {"threshold": 0},
    "fedseq": {"max_clients": 2, "pretrain_epochs": 1},
    "fedseqinter": {"max_clients": 2, "pretrain_epochs": 1},
}
"""Settings for the suite's small federations, or for convergence in fewer rounds."""


def claims_for(name: str, like: str | None = None) -> tuple[Claim, ...]:
    """The claims about a known method; for a user-defined one, those about the method ``like`` and the general ones."""
    known = METHODS.canonical(like if like is not None else name)
    if like is not None and known not in SPECIFIC:
        raise unknown("method", like, SPECIFIC)
    return SPECIFIC.get(known, ()) + GENERAL


def unchecked_formula(name: str, like: str | None = None) -> str:
    """What the claims about a method do not say, as a sentence; empty if some of them are about its formula.

    Args:
        name: The method.
        like: The known method whose claims it is checked for.
    """
    if SPECIFIC.get(METHODS.canonical(like if like is not None else name)):
        return ""
    return (
        f"{name}: checked is that it runs, repeats, resumes, and trains alike with any number of workers and in both "
        "executions; nothing about its formula: use --like METHOD for the claims about a known method."
    )


def conform(method: Algorithm, name: str, like: str | None = None) -> Iterator[ClaimResult]:
    """Check every claim about a method, one after the other. A method that raises an exception fails the claim."""
    for claim in claims_for(name, like):
        began, error, raised = time.perf_counter(), float("nan"), ""
        try:
            error = claim.error(method)
        except FedloomError as problem:
            raised = str(problem)
        except Exception as problem:  # whatever a user's method raises
            raised = describe_error(problem)
        yield ClaimResult(name, claim.says, error, claim.within, time.perf_counter() - began, raised)


def known_methods() -> Iterator[tuple[str, Algorithm]]:
    """Every registered method, with settings that fit the suite's small federations."""
    for name in METHODS.builtin:
        try:
            yield name, METHODS[name](**SUITE_SETTINGS.get(name, {}))
        except TypeError as error:
            raise FedloomError(f"{name} cannot be constructed for the suite: {error}.") from error
