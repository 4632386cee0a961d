"""The part of a report that says what is left of the tasks of a stream: accuracy on each at the end, and forgetting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import count

from fedloom.runs.results.history import History
from fedloom.runs.results.summaries import Histories, last_value, over_seeds

MODELS = {
    "client_model/own_test/{}/mean": "clients' models on their own tests",
    "global_model/global_test/{}": "the server's model on the global test set",
}
"""The names of numbers, and what they are of; the first that all methods measured is shown."""


def stream_table(histories: Histories) -> Iterator[str]:
    """A row per method: accuracy on each task after the last round, and forgetting. Nothing without a stream.

    Args:
        histories: The runs of each method, one per seed, by the method's name.
    """
    runs = [run for some in histories.values() for run in some]
    measured = [(min(_tasks(run, pattern) for run in runs), pattern, over) for pattern, over in MODELS.items()]
    tasks, pattern, over = next((one for one in measured if one[0]), (0, "", ""))
    if not tasks:
        return
    yield '<h2 id="stream">Tasks of the stream</h2>'
    yield (
        f'<p class="note">Accuracy on the classes of each task after the last round ({over}), mean ± standard '
        "deviation over seeds. <em>Forgetting</em>: how much of the best accuracy on each earlier task is lost, on "
        "average, in points.</p>"
    )
    names = [f"task_{number}_accuracy" for number in range(1, tasks + 1)]
    heads = ("Method", *(f"Task {number}" for number in range(1, tasks + 1)), "Forgetting")
    yield '<div class="wide"><table><thead><tr>' + "".join(f"<th>{head}</th>" for head in heads) + "</tr></thead>"
    yield "<tbody>"
    for method, some in histories.items():
        cells = [_points(some, pattern.format(name)) for name in (*names, "forgetting")]
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in (method, *cells)) + "</tr>"
    yield "</tbody></table></div>"


def _tasks(run: History, pattern: str) -> int:
    """On how many tasks a run was measured."""
    names = _metric_names(run)
    return next(number for number in count() if pattern.format(f"task_{number + 1}_accuracy") not in names)


def _points(runs: Sequence[History], name: str) -> str:
    mean, deviation = over_seeds([last_value(run, name) if name in _metric_names(run) else None for run in runs])
    if mean is None:
        return "–"
    return f"{100 * mean:.1f}" + ("" if deviation is None else f" ± {100 * deviation:.1f}")


def _metric_names(run: History) -> set[str]:
    return {name for record in run.records for name in record["metrics"]}
