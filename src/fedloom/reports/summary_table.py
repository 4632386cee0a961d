"""The summary table of a comparison: a row per method, and one per baseline of the task.

Every score is the last one measured, averaged over the method's seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedloom.core.algorithm import Algorithm
from fedloom.core.facts import Fact, holds
from fedloom.registry.kinds import METHODS
from fedloom.rounds.record_keys import turns_of
from fedloom.rounds.score import ACCURACY, Score
from fedloom.runs.results.baselines import baselines_of_runs
from fedloom.runs.results.history import History
from fedloom.runs.results.summaries import (
    Histories,
    client_count,
    common_score,
    last_value,
    over_seeds,
    stop_reason,
    traffic,
    values_by_round,
)

SummaryRow = dict[str, Any]

RECALL = "withheld_recall"
WHERE = ("workers", "engine", "ray_address")
MAY_DIFFER = (
    "method",
    "prediction",
    "seed",
    "out",
    *WHERE,
    "checkpoint_every",
    "made_by.task",
    "made_by.execution",
    "made_by.format",
)


def row_metrics(score: Score) -> dict[str, str]:
    """The scores of a row by their keys (``client_accuracy``, ``client_macro_f1`` ...), and the metric of each."""
    return {
        f"global_{score.name}": score.shared,
        f"client_{score.name}": score.clients,
        "worst_decile": score.over_clients("worst_decile"),
        "client_spread": score.over_clients("std"),
        f"new_{score.name}": score.over_clients("new"),
        "pooled": score.over_clients("pooled"),
        RECALL: f"client_model/own_test/{RECALL}/mean",
    }


def summary(histories: Histories, reach: float | None = None) -> list[SummaryRow]:
    """One row per method: final scores (mean and standard deviation over seeds), traffic, steps, why it stopped.

    ``<score>_std`` is None with a single seed: one run does not say how much runs vary. With ``reach``, also after
    how many rounds clients' mean score reached it (``rounds_to``, over the ``reached`` seeds that did).
    """
    score = common_score(histories)
    return [_row(name, runs, score) | _rounds_to_reach(runs, reach) for name, runs in histories.items()]


def baseline_rows(histories: Histories) -> list[SummaryRow]:
    """Rows of the same form for the task's baselines, below those of methods; empty where they were not measured."""
    score = common_score(histories)
    return [_row(one.label, one.runs, score) for one in baselines_of_runs(histories)]


def _row(name: str, runs: Sequence[History], score: Score) -> SummaryRow:
    method = METHODS.get(str(runs[0].config["method"]["name"]), Algorithm)()  # a user's own method averages
    row: SummaryRow = {"method": name, "seeds": len(runs)}
    row["global_model_is_federated"] = holds(Fact.FEDERATED_MODEL, method)
    for key, metric in row_metrics(score).items():
        row[key], row[f"{key}_std"] = over_seeds([last_value(run, metric) for run in runs])
    row["efficiency"], row["efficiency_std"] = over_seeds([_efficiency(run, score) for run in runs])
    measured = [
        max((*values_by_round(run, score.shared), *values_by_round(run, score.clients)), default=None) for run in runs
    ]
    return row | {
        **traffic(runs),
        "steps": sum(run.total("steps") for run in runs) / len(runs),
        "early_stopping": any("early_stopping" in run.config for run in runs),
        "rounds": min(max((r["round"] for r in run.records), default=0) for run in runs),
        "last_measured": min((r for r in measured if r is not None), default=None),
        "stopped": stop_reason(runs),
    }


def _efficiency(run: History, score: Score) -> float | None:
    """The score per selected client, mean over rounds; None if all clients took part in every round."""
    chosen = [turns_of(r) + len(r.get("lost", ())) for r in run.records if r["round"]]
    there = client_count(run) - int(run.config.get("new_clients", 0))
    return run.mean(score.over_clients("per_selected")) if chosen and min(chosen) < there else None


def _rounds_to_reach(runs: Sequence[History], reach: float | None) -> SummaryRow:
    if reach is None:
        return {}
    rounds = [found for found in (run.rounds_to(reach) for run in runs) if found is not None]
    return {"reach": reach, "reached": len(rounds), "rounds_to": sum(rounds) / len(rounds) if rounds else None}


def is_apart(row: SummaryRow, key: str) -> bool:
    """Whether a score is that of a global model that owes nothing to clients, and has no part in comparisons.

    Args:
        key: The score.
    """
    return key.startswith("global_") and row[key] is not None and not row["global_model_is_federated"]


def cell_text(row: SummaryRow, key: str, score: Score = ACCURACY) -> str:
    """A row's value for people, as ``87.3 ± 0.6 %``; with a star if it has no part in the verdict."""
    if row[key] is None:
        return "not measured"
    shown = ACCURACY if key == RECALL else score
    return shown.text(row[key], row[f"{key}_std"]) + (" *" if is_apart(row, key) else "")


def differences(histories: Histories) -> list[str]:
    """The config keys, besides method and seed, in which the compared runs differ: a fair comparison has none.

    Runs of one seed must also have the same fingerprint of data, partition and initial model.
    """
    flat = [dict(_flat_items(run.config)) for runs in histories.values() for run in runs]
    keys = sorted({key for config in flat for key in config if not {key, key.split(".")[0]} & set(MAY_DIFFER)})
    found = [key for key in keys if len({repr(config.get(key)) for config in flat}) > 1]
    tasks = {(config.get("seed"), config.get("made_by.task")) for config in flat}
    if len(tasks) > len({seed for seed, _ in tasks}):
        found.append("data or initial model of the same seed")
    return found


def _flat_items(config: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat_items(value, f"{above}{key}.")
        else:
            yield above + key, value
