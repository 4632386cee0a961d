"""Forgetting: how much of the best accuracy on the earlier tasks of a stream is lost.

After each evaluation, for every task before the newest: its best accuracy in any round so far, minus its accuracy now;
the mean of these. It is 0 where nothing is lost.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

NAMES = re.compile(r"(?P<where>.+)/task_(?P<task>\d+)_accuracy(?P<over>/mean|/pooled|)")


def forgetting(metrics: Mapping[str, float], records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The forgetting of every model that is measured on every kind of test part; nothing before the second task.

    Args:
        metrics: What a round measured.
        records: The records of the rounds before it.
    """
    accuracies: dict[str, dict[int, str]] = defaultdict(dict)
    for name in metrics:
        found = NAMES.fullmatch(name)
        if found:
            accuracies[f"{found['where']}/forgetting{found['over']}"][int(found["task"])] = name
    lost = {}
    for called, names in accuracies.items():
        old = [names[task] for task in sorted(names)[:-1]]
        best = [max(metrics[name], *(record["metrics"].get(name, 0.0) for record in records)) for name in old]
        if old:
            lost[called] = sum(top - metrics[name] for top, name in zip(best, old, strict=True)) / len(old)
    return lost
