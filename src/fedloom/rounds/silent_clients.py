"""What clients do whose update a step of the channel withholds: they send a flag, and keep what they kept before.

Only the step that withheld an update remembers more of it (``but``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.kept_rows import KeptRows
from fedloom.rounds.jobs import CohortAnswer


def restore_kept(cohort: Cohort, before: Mapping[str, KeptRows], silent: Tensor, but: frozenset[str]) -> None:
    """Set back what the silent clients of a cohort kept in this round.

    Args:
        cohort: The clients.
        before: What they kept before.
        silent: A mask of the silent ones.
        but: The names that stay.
    """
    for name in cohort.changed - but:
        now = cohort.kept[name]
        cohort.kept[name] = (before.get(name) or KeptRows.of_nobody(now.rows)).where(silent, now)


def withhold_replies(answer: CohortAnswer, silent: Tensor) -> CohortAnswer:
    """An answer whose silent clients send their flag only; without replies if all of them are silent.

    Args:
        answer: What the clients of a cohort would send.
        silent: A mask of the silent ones.
    """
    costs = {**answer.costs, "bytes": torch.where(silent, 0, answer.costs["bytes"]) + 1}
    return replace(answer, reply={} if bool(silent.all()) else answer.reply, costs=costs, silent=silent)
