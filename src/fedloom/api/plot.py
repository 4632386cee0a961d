"""``fl.plot``: the score of several runs in one figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedloom.api.several_runs import Runs, runs_by_label
from fedloom.plotting.curves import curves_figure
from fedloom.plotting.style import save_figure
from fedloom.runs.results.summaries import score_panels


def plot(runs: Runs, path: str | Path | None = None, axis: str = "round") -> Any:
    """The score of one or several runs as a matplotlib figure, also saved to ``path`` if given.

    Runs that differ only in their seed are one line, with a band of one standard deviation.

    Args:
        runs: A history, several histories, a comparison, or the folders of runs or comparisons.
        path: The file; its ending names the format.
        axis: Along ``round``, ``megabytes``, ``steps`` or ``seconds``.
    """
    found = runs_by_label(runs)
    figure = curves_figure(score_panels(axis, found), list(found))
    if path is not None:
        save_figure(figure, path)
    return figure
