"""The part of a report that shows which classes were taken for which: per class, and as a matrix if there are few.

The counts are over the test samples of all clients, each predicted by its client's model at the end, and summed over
seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from fedloom.runs.results.history import History
from fedloom.runs.results.summaries import Histories

MOST_IN_MATRIX = 20
"""Classes of a matrix, at most; with more classes there is only the table per class."""


def confusion_tables(histories: Histories) -> Iterator[str]:
    """For every method the recall and precision of each class, and the matrix. Nothing if no run counted them."""
    counted = {name: [run for run in runs if run.confusion] for name, runs in histories.items()}
    counted = {name: runs for name, runs in counted.items() if runs}
    if not counted:
        return
    yield '<h2 id="confusion">Classes</h2>'
    yield (
        '<p class="note">Which classes were taken for which: test samples of all clients, each predicted by its '
        "client's model at the end; seeds added up. <em>Recall</em>: the share of a class that was recognised. "
        "<em>Precision</em>: the share of predictions of a class that were right.</p>"
    )
    for place, (name, runs) in enumerate(counted.items()):
        counts = np.sum([np.array(run.confusion) for run in runs], axis=0)
        yield f"<details{' open' if not place else ''}><summary>{_name_html(name)}</summary>"
        names = _class_names(runs[0], len(counts))
        yield _per_class(counts, names)
        if len(counts) <= MOST_IN_MATRIX:
            yield _matrix(counts, names)
        yield "</details>"


def _name_html(name: str) -> str:
    """A name that keeps its own direction of writing."""
    return f"<bdi>{escape(name)}</bdi>"


def _class_names(run: History, classes: int) -> list[str]:
    names = [str(name) for name in run.partition.get("class_names") or ()]
    return names if len(names) == classes else [str(label) for label in range(classes)]


def _per_class(counts: NDArray[np.int64], names: Sequence[str]) -> str:
    heads = ("Class", "Test samples", "Recall", "Precision", "Most often taken for")
    lines = [f"<tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>"]
    for label, name in enumerate(names):
        there, predicted, hits = counts[label].sum(), counts[:, label].sum(), counts[label, label]
        wrong = counts[label].copy()
        wrong[label] = 0
        most = int(wrong.argmax())
        taken = f"{_name_html(names[most])} ({wrong[most]:,})" if wrong[most] else "–"
        cells = (_name_html(name), f"{there:,}", _share(hits, there), _share(hits, predicted), taken)
        lines.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def _matrix(counts: NDArray[np.int64], names: Sequence[str]) -> str:
    head = "".join(f"<th>{_name_html(name)}</th>" for name in names)
    lines = [f"<tr><th>class \\ predicted</th>{head}</tr>"]
    for row, name in zip(counts, names, strict=True):
        total = max(1, int(row.sum()))
        cells = "".join(f'<td style="--share: {count / total:.3f}">{count:,}</td>' for count in row)
        lines.append(f"<tr><th>{_name_html(name)}</th>{cells}</tr>")
    return f'<div class="wide"><table class="matrix">{"".join(lines)}</table></div>'


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"
