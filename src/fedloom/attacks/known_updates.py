"""What attackers who agree on an update know: their own updates, or those of everybody else too."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from torch import Tensor

from fedloom.core.adversary import Adversary
from fedloom.core.facts import Fact, Facts


@dataclass(frozen=True)
class KnowingAttack(Adversary):
    """An attack whose hostile clients all send one update, made of the honest updates that they know.

    Args:
        knows: ``own`` are the updates that the hostile clients would have sent themselves, ``all`` those that the
            others did send: more than anybody knows outside a laboratory, and the worst case of robustness studies.
    """

    needs: ClassVar[Facts] = dict.fromkeys(
        (Fact.UPDATES, Fact.EXCHANGES), "changes the updates that clients send: choose another attack or method"
    )

    knows: Literal["own", "all"] = field(default="own", kw_only=True)

    def agreed_change(self, honest: Tensor) -> Tensor:
        """The change that all hostile clients send.

        Args:
            honest: The honest changes that they know.
        """
        raise TypeError(f"{type(self).__name__} has no agreed_change")

    def collude_against(self, name: str, changes: Tensor, others: Tensor) -> Tensor:
        """The same change for all hostile clients."""
        known = others if self.knows == "all" and len(others) else changes
        return self.agreed_change(known).to(changes).expand_as(changes)
