"""The audit of privacy: of every mechanism, the epsilon that it states, and what an attacker shows it is at least."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedloom.attacks.measures.trade_off import TradeOff, trade_off
from fedloom.audits.lower_bound import CONFIDENCE, empirical_epsilon
from fedloom.audits.privacy_cases import DELTA, AuditCase


@dataclass(frozen=True)
class AuditRow:
    """What was found of one mechanism.

    Args:
        mechanism: What was played, in words.
        stated: The epsilon that its runs state.
        lower_bound: What it is at least, with some confidence.
        seen: What the attacker's guesses came to; None if none of them was wrong.
        most: What guesses of this attacker come to at most; None if that is not bounded.
        trials: How often each neighbour was played.
        neighbour: What the canary is in the other of two neighbours.
        trade_off: The curve of the attacker's scores, with a band that holds at all of its points together.
    """

    mechanism: str
    stated: float
    lower_bound: float
    seen: float | None
    most: float | None
    trials: int
    neighbour: str
    trade_off: TradeOff

    @property
    def holds(self) -> bool:
        """Whether the trials leave what is stated possible."""
        return self.lower_bound <= self.stated


def audit_case(case: AuditCase, trials: int, confidence: float = CONFIDENCE) -> AuditRow:
    """Play both neighbours of a mechanism.

    Args:
        trials: How often each neighbour is played.
        confidence: The probability with which the bound holds.
    """
    there, stated = case.play("in", trials)
    without, _ = case.play(case.neighbour, trials)
    found = empirical_epsilon(there, without, DELTA, confidence)
    seen, most = (end if math.isfinite(end) else None for end in (found.seen, found.most))
    return AuditRow(
        case.name, stated, found.least, seen, most, trials, case.neighbour, trade_off(there, without, confidence)
    )


def audit_privacy(
    cases: Sequence[AuditCase], trials: int, watch: Callable[[AuditRow], None] = lambda _: None
) -> list[AuditRow]:
    """Play some mechanisms.

    Args:
        cases: What is played.
        trials: How often each neighbour of each of them is played.
        watch: Is called with each row as soon as it is found.
    """
    found = []
    for case in cases:
        found.append(audit_case(case, trials))
        watch(found[-1])
    return found
