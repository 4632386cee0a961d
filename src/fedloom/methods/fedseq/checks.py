"""Which methods run inside chains, and which chains can be encrypted."""

from __future__ import annotations

from fedloom.core.algorithm import Algorithm, SelectsGroups
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, broken_facts
from fedloom.core.task import Task

INNER = {Fact.EXCHANGES, Fact.WHOLE_MODEL, Fact.TRAINS_LOCALLY, Fact.SHARED_PREDICTION, Fact.OWN_DATA}
"""What must hold for a method inside chains."""


def check_encryption(chains: list[list[int]] | None, dropout: float) -> None:
    """Refuse chains whose members could not tell for whom to encrypt, or would have nobody to encrypt for."""
    if chains is None:
        raise FedloomError(
            "encrypt=true needs chains that are in the plan, since a member must not take the server's word for who is "
            "next: name them (chains), or leave out encrypt."
        )
    alone = [chain for chain in chains if len(chain) == 1]
    if alone:
        raise FedloomError(
            f"encrypt=true cannot hide the model of client {alone[0][0]}, which is a chain of its own: put it into a "
            "longer chain, or leave out encrypt."
        )
    if dropout:
        raise FedloomError(
            f"dropout={dropout:g} can leave one member of a chain, whose model encrypt=true would not hide: leave out "
            "one of the two."
        )


def check_inner(method: Algorithm, task: Task, encrypt: bool) -> None:
    """Refuse a method whose clients do more than train one whole model.

    With ``encrypt`` they keep nothing: a chain may be lost in a round, and a state of its members would remain.
    """
    plain = all(getattr(type(method), hook) is getattr(Algorithm, hook) for hook in ("play", "prelude"))
    if not plain or isinstance(method, SelectsGroups) or INNER & broken_facts(method).keys():
        raise inner_error(method, "a chain passes on one whole model that each member trains, and nothing else")
    sent = method.broadcast(method.start(task), [0])
    if {*sent.shared, *sent.each} != {"row"}:
        raise inner_error(
            method, f"a chain passes on a model, but its clients need {', '.join([*sent.shared, *sent.each])}"
        )
    if encrypt and method.keeps:
        raise FedloomError(
            f"{type(method).__name__.lower()} lets members keep {next(iter(method.keeps))}, which would belong to no "
            "model if their encrypted chain is lost in a round: use fedavg or fedprox as inner, or leave out encrypt."
        )


def inner_error(method: Algorithm, why: str) -> FedloomError:
    """The error for a method that cannot run inside chains."""
    name = type(method).__name__.lower()
    return FedloomError(f"{name} cannot run inside chains: {why}; use fedavg, fedprox or feddyn as inner.")
