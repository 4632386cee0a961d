"""Learning rates of a study's methods, chosen on clients' validation parts.

Each method has a small grid, and one run per candidate with a seed that no table reports. The highest accuracy on the
validation parts is chosen, the first of equal ones; test parts and the reported seeds have no say in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedloom.reproduce.study import StudyRequest
from fedloom.runs.plans.members import Member, folder_name

TUNING_SEED = 1000
"""The seed of the runs that choose: not among those that a table reports."""
VALIDATION = "client_model/own_validation/accuracy/mean"
Candidates = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""For each method, the values of a run by the words for its learning rates."""


def tuning_members(candidates: Candidates) -> list[Member]:
    """The runs that choose.

    Args:
        candidates: The grids.
    """
    labels = [(_label(method, rates), values) for method, grid in candidates.items() for rates, values in grid.items()]
    return [Member(label, folder_name(label), values) for label, values in labels]


def _label(method: str, rates: str) -> str:
    return f"learning rate {rates}, {method}"


def choose_rates(request: StudyRequest, candidates: Candidates) -> dict[str, str]:
    """The words for the learning rates that are best on validation data, for each method.

    Args:
        request: How the study is run.
        candidates: The grids.
    """
    found = request.run(tuning_members(candidates), may_stop=True, only_seed=TUNING_SEED)

    def score(method: str, rates: str) -> float:
        (history,) = found[_label(method, rates)]
        reached = None if history.stopped else history.last(VALIDATION)
        return -1.0 if reached is None else reached

    return {method: max(grid, key=lambda rates: score(method, rates)) for method, grid in candidates.items()}
