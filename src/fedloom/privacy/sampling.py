"""How the clients of a round are drawn, and what that means for their privacy.

The guarantee of a run holds for a neighbouring relation: two federations that differ in one client. That a client
"counts as zero" (zero-out) means that it is there and drawn as before, and its change is zero: how many clients there
are, by which the sum is divided, is public and the same in both.

=================  =========================================  ====================  =================================
sampling           a round has                                neighbours            one client changes the sum by
=================  =========================================  ====================  =================================
``PoissonDraw``    every client with the same probability,    a client counts as    the clip norm
                   independently of the others                zero
``EveryClient``    all clients                                a client counts as    the clip norm
                                                              zero
``FixedSize``      a fixed number, without replacement        a client replaced     twice the clip norm: the number
                                                                                    stays, so one goes and one comes
``PoissonChains``  chains of clients, as in a Poisson draw    a client replaced     twice the clip norm: its chain is
                                                              within its chain      there with and without it
=================  =========================================  ====================  =================================

Drawing clients at random makes a guarantee stronger (amplification) as long as nobody knows who was drawn. Where that
is known, because a seed tells it or a server's log does, every client counts as drawn in every round.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fedloom.core.errors import FedloomError
from fedloom.core.settings import PositiveShare, check_settings

ZERO_OUT = "one client counts as zero"
REPLACE = "replace one client"


@dataclass(frozen=True)
class ClientSampling:
    """How the clients of a round are drawn.

    Args:
        known: Whether somebody who is not trusted may know who was drawn.
    """

    known: bool = field(default=False, kw_only=True)

    @property
    def amplifies(self) -> bool:
        """Whether it counts that clients are drawn at random: nobody may know who was."""
        return not self.known

    @property
    def neighbours(self) -> str:
        """How two federations differ that the guarantee compares."""
        return ZERO_OUT

    @property
    def expected(self) -> float | None:
        """How many clients a round has on average, if that is known; the sum is divided by it."""
        return None

    @property
    def share(self) -> float:
        """The probability of a client in a round."""
        return 1.0

    @property
    def _known_words(self) -> str:
        return ", counted as every client in every round since draws are known" if self.known else ""


@dataclass(frozen=True)
class PoissonDraw(ClientSampling):
    """Every client takes part with the same probability, independently of the others.

    Args:
        rate: That probability.
        clients: How many clients there are, if that is known.
    """

    rate: PositiveShare
    clients: int | None = None

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def share(self) -> float:
        """The rate."""
        return self.rate

    @property
    def expected(self) -> float | None:
        """The rate times the number of clients."""
        return None if self.clients is None else self.rate * self.clients

    def __str__(self) -> str:
        return f"Poisson sampling, rate {self.rate:g}{self._known_words}"


@dataclass(frozen=True)
class PoissonChains(PoissonDraw):
    """Every chain takes part with the same probability; a client is a member of one chain."""

    @property
    def neighbours(self) -> str:
        """A chain is there with and without one of its members."""
        return REPLACE

    def __str__(self) -> str:
        return f"Poisson sampling of chains, rate {self.rate:g}{self._known_words}"


@dataclass(frozen=True)
class EveryClient(ClientSampling):
    """All clients take part in every round.

    Args:
        clients: How many clients there are, if that is known.
    """

    clients: int | None = None

    @property
    def amplifies(self) -> bool:
        """Nobody is drawn."""
        return False

    @property
    def expected(self) -> float | None:
        """All of them."""
        return None if self.clients is None else float(self.clients)

    def __str__(self) -> str:
        return "every client in every round"


@dataclass(frozen=True)
class FixedSize(ClientSampling):
    """A fixed number of clients without replacement.

    Args:
        number: How many take part in a round.
        clients: How many clients there are.
    """

    number: int
    clients: int

    def __post_init__(self) -> None:
        if not 0 < self.number <= self.clients:
            raise FedloomError(
                f"{self.number} of {self.clients} clients in a round: there must be at least one and at most all."
            )

    @property
    def neighbours(self) -> str:
        """The number stays, so one client goes and another comes."""
        return REPLACE

    @property
    def share(self) -> float:
        """The number, of all."""
        return self.number / self.clients

    @property
    def expected(self) -> float | None:
        """The number."""
        return float(self.number)

    def __str__(self) -> str:
        return f"{self.number} of {self.clients} clients without replacement{self._known_words}"


def sampling_rate(samples: int, batch_size: int) -> float:
    """The probability of a sample in a step of DP-SGD.

    Args:
        samples: How many samples the client has.
        batch_size: How many of them a step has on average; more than there are, or 0, means all.
    """
    return min(1.0, batch_size / samples) if batch_size and samples else 1.0
