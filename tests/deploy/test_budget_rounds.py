"""How long a budget lasts is said when folders are made: as long as a simulation of the run, to the round."""

from __future__ import annotations

from typing import Any

import pytest

from fedloom.deploy.budget_rounds import _longest, budget_sentences
from support.local_transport import Plan, simulate

pytest.importorskip("dp_accounting", reason="needs dp-accounting")

NOISE: dict[str, Any] = {"noise": 4.0, "seeded": True}
PRIVATE: dict[str, dict[str, Any]] = {
    "localnoise": {"channel": [{"name": "localnoise", **NOISE}]},
    "privatesum": {"channel": [{"name": "privatesum", **NOISE}]},
    "sample_privacy": {"sample_privacy": NOISE},
    "privatemean": {"aggregation": {"name": "privatemean", **NOISE}, "weight_by": "uniform"},
}


def with_budget(part: str, epsilon: float) -> dict[str, Any]:
    ((key, value),) = [pair for pair in PRIVATE[part].items() if pair[0] != "weight_by"]
    changed = [{**value[0], "epsilon": epsilon}] if isinstance(value, list) else {**value, "epsilon": epsilon}
    return {**PRIVATE[part], key: changed}


@pytest.mark.parametrize("part", PRIVATE)
def test_a_budget_lasts_for_as_many_rounds_as_its_sentence_says(part):
    made = Plan.of("fedavg", **PRIVATE[part])
    assert budget_sentences(made.prepared) == []  # no budget
    recorded = simulate(made).records
    spent = [next(value for name, value in one["metrics"].items() if "epsilon" in name) for one in recorded]
    assert len(spent) == 3
    for rounds in (2, 3):
        changed = Plan.of("fedavg", **with_budget(part, 1.0001 * spent[rounds - 1]))
        (sentence,) = budget_sentences(changed.prepared)
        words = "all 3 rounds." if rounds == 3 else f"{rounds} of 3 rounds, and the run ends then"
        assert sentence.startswith("Privacy: epsilon = ")
        assert f"of {part} lasts for {words}" in sentence
        assert len(simulate(changed).records) == rounds


def test_the_longest_time_is_found():
    for lasts in range(12):
        assert _longest(lambda rounds, end=lasts: rounds <= end, 11) == lasts
