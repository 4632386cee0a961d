"""A history as a notebook shows it: the last scores beside the baselines, the costs, and why it stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedloom.core.html_table import html_table

if TYPE_CHECKING:
    from fedloom.runs.results.history import History


def history_html(history: History) -> str:
    """A history as a part of a page.

    Args:
        history: What a run measured.
    """
    score, last = history.score, history.records[-1]["round"] if history.records else 0
    task = history.config.get("task", {}).get("name", "its task")
    places = {
        score.shared: "global model, global test set",
        score.clients: "clients' models, own test sets (mean)",
        score.over_clients("worst_decile"): "worst tenth of clients",
    }
    rows = []
    for metric in [one for one in places if one in history.metric_names]:
        value = history.last(metric)
        beside = [one["metrics"].get(metric) for one in history.baselines]
        texts = ["" if number is None else score.text(number) for number in (value, *beside)]
        rows.append([places[metric], *texts])
    headings = [score.heading, history.label, *(f"baseline: {one['name']}" for one in history.baselines)]
    planned = f" of {history.config['rounds']}" if "rounds" in history.config else ""
    costs = (
        f"{last}{planned} rounds, {history.total('bytes_sent') / 1e6:,.2f} MB sent (down, up and between clients), "
        f"{history.total('steps'):,} local gradient steps."
    )
    early = f"Early stopping: scores are those of round {history.final_round}, the best one."
    goes_on = " It can be continued with fl.resume." if history.can_continue and history.folder is not None else ""
    below = [
        costs,
        early if "early_stopping" in history.config else "",
        f"Stopped: {history.stopped.rstrip('.')}.{goes_on}" if history.stopped else "",
        "" if history.folder is None else f"In {history.folder}.",
    ]
    return html_table(headings, rows, caption=f"{history.label} on {task}", below=below)
