"""Which baselines a task has: those of its targets and its score, or its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedloom as fl
from fedloom.baselines.constant import FrequentLabels, MajorityClass, TypicalNumber
from fedloom.baselines.token_table import MostFrequentTag
from fedloom.baselines.usual import baselines_of

RANDOM = np.random.default_rng(0)
WHO = np.repeat(np.arange(3), 20)
X = RANDOM.normal(size=(60, 2)).astype("float32")


@pytest.mark.parametrize(
    ("y", "kind", "metrics", "expected"),
    [
        (RANDOM.choice(3, 60), None, "", MajorityClass()),
        (RANDOM.normal(size=60).astype("float32"), None, "", TypicalNumber(absolute=True)),
        (RANDOM.normal(size=60).astype("float32"), None, "rmse,mae", TypicalNumber(absolute=False)),
        ((RANDOM.random((60, 3)) < 0.4).astype("uint8"), "labels", "", FrequentLabels(every=True)),
    ],
)
def test_targets_and_score_decide(y: np.ndarray, kind: str | None, metrics: str, expected: object) -> None:
    task = fl.task_of(fl.from_arrays(X, y, WHO, kind=kind), metrics=metrics)
    assert baselines_of(task) == (expected,)


def test_a_task_may_bring_its_own() -> None:
    task = fl.task("digits", clients=3)
    own = MostFrequentTag()
    assert baselines_of(task) == (MajorityClass(),)
    assert baselines_of(replace(task, baselines=(own,))) == (own,)
