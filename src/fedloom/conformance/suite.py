"""The suite: all claims, by method, and what becomes of them."""

from __future__ import annotations

import time
from collections.abc import Iterator

from fedloom.conformance.any_method import GENERAL
from fedloom.conformance.claim import Claim, ClaimResult
from fedloom.conformance.overlapping_graphs import GRAPHS
from fedloom.conformance.partial_sharing import DECOUPLED
from fedloom.conformance.personal_models import PERSONAL
from fedloom.conformance.prototypes import PROTOTYPES
from fedloom.conformance.shared_models import SHARED
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import Diverged, FedloomError, unknown
from fedloom.methods.registry import METHODS, canonical_method

SPECIFIC = {
    name: tuple(claim for family in (SHARED, PERSONAL, DECOUPLED, PROTOTYPES, GRAPHS) for claim in family.get(name, ()))
    for name in METHODS
}
"""The claims that a method's own paper makes for it."""
HANDY: dict[str, dict[str, float]] = {
    "fedavgexit": {"tolerance": 0},
    "fedproxexit": {"tolerance": 0, "adaptive": False},
    "feddyn": {"alpha": 1.0},
    "fedhybridavglg": {"threshold": 0},
    "fedhybridavglgdual": {"threshold": 0},
    "fedseq": {"max_clients": 2, "pretrain_epochs": 1},
    "fedseqinter": {"max_clients": 2, "pretrain_epochs": 1},
}
"""Settings with which methods fit the small federations of the suite, or settle in fewer rounds."""


def claims_for(name: str, like: str | None = None) -> tuple[Claim, ...]:
    """The claims of a known method; of a method of one's own those of the method that it is said to be like."""
    known = canonical_method(like if like is not None else name)
    if like is not None and known not in SPECIFIC:
        raise unknown("method", like, SPECIFIC)
    return SPECIFIC.get(known, ()) + GENERAL


def conform(method: Algorithm, name: str, like: str | None = None) -> Iterator[ClaimResult]:
    """Check every claim about a method, one after the other. A method that diverges is infinitely wrong."""
    for claim in claims_for(name, like):
        began = time.perf_counter()
        try:
            error = claim.error(method)
        except (Diverged, KeyError):  # KeyError: it keeps no state of the name that the claim is about
            error = float("inf")
        yield ClaimResult(name, claim.says, error, claim.within, time.perf_counter() - began)


def known_methods() -> Iterator[tuple[str, Algorithm]]:
    """Every registered method, with settings that fit the suite's small federations."""
    for name, kind in METHODS.items():
        try:
            yield name, kind(**HANDY.get(name, {}))
        except TypeError as error:
            raise FedloomError(f"{name} cannot be made with its defaults: {error}.") from error
