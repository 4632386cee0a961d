"""The ledger of a private run: what it has spent, by which mechanism, and what it may spend."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.core.errors import FedloomError
from fedloom.privacy.accounting import epsilon_after
from fedloom.privacy.sampling import ClientSampling


@dataclass(frozen=True)
class PrivacyLedger:
    """What a run spends of its clients' privacy.

    Args:
        sampling: How the clients of a round are drawn.
        noise: The deviation of the noise, divided by the clip norm.
        delta: The probability with which epsilon may not hold.
        mechanisms: How many noisy sums a round makes of the same clients.
        budget: The epsilon that the run may spend; None for any.
    """

    sampling: ClientSampling
    noise: float
    delta: float
    mechanisms: int = 1
    budget: float | None = None

    @property
    def expected(self) -> float:
        """How many clients a round has on average."""
        if self.sampling.expected is None:
            raise FedloomError(f"how many clients a round has is not known: {self.sampling}.")
        return self.sampling.expected

    @property
    def rate(self) -> float:
        """The probability of a client in a round."""
        return self.sampling.share

    @property
    def secret_draws(self) -> bool:
        """Whether what is counted holds only if nobody learns who was drawn."""
        return self.sampling.amplifies

    def spent(self, rounds: int) -> float:
        """The epsilon that this many rounds spend.

        Args:
            rounds: How many rounds.
        """
        return epsilon_after(self.sampling, self.noise, rounds, self.delta, self.mechanisms)

    def __str__(self) -> str:
        sums = "" if self.mechanisms == 1 else f" on each of {self.mechanisms} sums"
        noise = f"noise {self.noise:g}{sums}"
        return f"({self.sampling}; neighbours: {self.sampling.neighbours}; {noise}; delta {self.delta:g})"
