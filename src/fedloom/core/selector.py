"""What a selector may use, and what it returns.

A selector is any callable ``selector(pool) -> Choice``. It sees places 0..size-1 (clients, or groups of clients where
the method trains groups), never data. What it remembers is named tensors, so that a resumed run gives the same
bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from fedloom.core.errors import FedloomError, Stopped
from fedloom.core.facts import is_about
from fedloom.core.seeds import numpy_generator, secret_generator

if TYPE_CHECKING:
    from fedloom.core.algorithm import Algorithm
    from fedloom.core.task import Task


@dataclass(frozen=True)
class Probe:
    """What queried clients report of their current model on their own data: mean loss and score."""

    loss: Tensor
    score: Tensor


@dataclass(frozen=True)
class Pool:
    """Those who may take part in a round.

    Args:
        samples: The number of training samples at each place.
        round: The round, counted from 1.
        rounds: How many rounds the run has.
        state: What the selector remembers from earlier rounds.
        ask: ``ask(places)`` sends the model to clients and returns their loss and score; it costs bytes.
        grouped: Whether a place is a group of clients.
        secret: Whether nobody may learn who is drawn, not even by the run's seed: privacy is counted on that.
        least: The fewest places with which the run's aggregator can do what it promises.
    """

    samples: Tensor
    seed: int
    round: int
    rounds: int
    state: Mapping[str, Tensor]
    ask: Callable[[Sequence[int]], Probe]
    grouped: bool = False
    secret: bool = False
    least: int = 1

    @property
    def size(self) -> int:
        """How many places there are."""
        return len(self.samples)

    def generator(self, purpose: str, number: int | None = None) -> np.random.Generator:
        """Randomness for one purpose in this round (or in a round of a given number, for what is drawn once).

        Args:
            purpose: What the randomness is for: each purpose has its own.
            number: The round whose randomness it is; this one by default.
        """
        if self.secret:
            return secret_generator()
        return numpy_generator(self.seed, purpose, self.round if number is None else number)


@dataclass(frozen=True)
class Choice:
    """What a selector returns.

    Args:
        places: The chosen places.
        state: What the selector remembers for later rounds, as named tensors.
        lost: Further places that were asked to take part and whose upload failed.
    """

    places: list[int]
    state: Mapping[str, Tensor] = field(default_factory=dict)
    lost: list[int] = field(default_factory=list)


Selector = Callable[[Pool], Choice]


@dataclass(frozen=True)
class Draws:
    """How a selector draws the clients of a round, where that is known before the run.

    Args:
        number: How many clients a round has, if that is fixed.
        rate: The probability of each client, independently of the others, if it is not.
    """

    number: int | None = None
    rate: float | None = None


@runtime_checkable
class KnownDraws(Protocol):
    """A selector that can tell how it draws."""

    def draws(self, clients: int) -> Draws:
        """How it draws.

        Args:
            clients: How many clients, or groups of them, there are to choose from.
        """
        ...


def draws_of(selector: Selector, clients: int) -> Draws | None:
    """How a selector draws, if it can tell: what a class says of its draws does not hold for an override of them.

    Args:
        clients: How many clients, or groups of them, there are to choose from.
    """
    if isinstance(selector, KnownDraws) and is_about(selector, "draws", "__call__"):
        return selector.draws(clients)
    return None


@runtime_checkable
class CheckedSelector(Protocol):
    """A selector that can refuse a run before it starts."""

    def check(self, clients: int, task: Task, algorithm: Algorithm) -> None:
        """Refuse a run that this selector cannot serve.

        Args:
            clients: How many clients there are to choose from.
            algorithm: The method of the run.
        """
        ...


def check_choice(choice: Choice, pool: Pool, selector: object) -> Choice:
    """The choice in sorted order; an invalid choice is an error."""
    name = type(selector).__name__.lower()
    if not isinstance(choice, Choice):
        raise FedloomError(f"selection '{name}' returned {type(choice).__name__}: it must return a fedloom.Choice.")
    places, lost = (sorted(int(place) for place in some) for some in (choice.places, choice.lost))
    if not places:
        raise Stopped(f"selection '{name}' chose no client in round {pool.round}: a round needs at least one client.")
    named = places + lost
    if any(not 0 <= place < pool.size for place in named) or len(set(named)) < len(named):
        also = f" and lost {lost}" if lost else ""
        raise FedloomError(
            f"selection '{name}' returned {places}{also} in round {pool.round}: it must name places between 0 and "
            f"{pool.size - 1}, each once."
        )
    if len(places) < pool.least:
        what = "groups of clients" if pool.grouped else "clients"
        raise Stopped(
            f"selection '{name}' chose {len(places)} of {pool.size} {what} in round {pool.round}, but the run's "
            f"aggregator needs at least {pool.least}: select more, or use another aggregator."
        )
    return Choice(places, choice.state, lost)
