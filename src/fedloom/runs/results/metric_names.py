"""Names of metrics: a name that no run can have is a mistake, one that a run did not measure is not."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

from fedloom.core.errors import FedloomError

WHERE = "global_model/global_test|client_model/(own_test|own_validation|global_test)|(received|trained)_model/own_test"
AGGREGATES = "mean|pooled|std|weighted|worst_decile|small|intermediate|big|new|per_selected"
ALWAYS = ("loss", "accuracy", "withheld_recall")


def refuse_unknown_metric(name: str, measured: Collection[str], scores: Collection[str]) -> None:
    """Raise an error, with the nearest name, if no run with these scores measures a metric of this name.

    Args:
        measured: The names of all metrics that the run measured.
        scores: The names of the task's scores.
    """
    if name in measured:
        return
    known = {*ALWAYS, *scores, *(metric.split("/")[2] for metric in measured if metric.count("/") > 1)}
    score = "|".join(map(re.escape, sorted(known)))
    if re.fullmatch(f"({WHERE})/({score})(/({AGGREGATES}))?", name):
        return
    usual = measured or [f"client_model/own_test/{score}/mean" for score in scores or ALWAYS]
    close = difflib.get_close_matches(name, usual, n=1, cutoff=0.5) or [one for one in usual if f"/{name}" in one]
    hint = f"did you mean '{close[0]}'?" if close else f"a metric is, for instance, '{next(iter(usual))}'."
    raise FedloomError(f"no run has a metric '{name}': {hint}")
