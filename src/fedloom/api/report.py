"""``fl.report``: one self-contained HTML page about runs."""

from __future__ import annotations

from pathlib import Path

from fedloom.api.several_runs import Runs, folders_of, runs_by_label
from fedloom.core.arguments import path_from
from fedloom.core.errors import FedloomError
from fedloom.reports.run_page import write_report


def report(runs: Runs, path: str | Path | None = None, title: str | None = None) -> Path:
    """Write one self-contained HTML page about one or several runs, and return its path.

    Args:
        runs: A history, several histories, a comparison, or the folders of runs or comparisons.
        path: The page; ``report.html`` in the first folder by default.
        title: The title of the page; None makes one from the runs.
    """
    found = runs_by_label(runs)
    if path is None:
        folders = folders_of(runs)
        if not folders:
            raise FedloomError("these runs have no folder: say where the report goes, fl.report(runs, 'report.html').")
        path = folders[0] / "report.html"
    return write_report(found, path_from("path", path), None if title is None else str(title))
