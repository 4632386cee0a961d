"""The summary table of a comparison, and the verdict on it.

There is a row per method. Every score is the last one measured, averaged over the method's seeds. The verdict names
the best method, and claims a lead only if it exceeds the spread over seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedloom.runs.history import History
from fedloom.runs.score import ACCURACY, Score
from fedloom.runs.statistics import (
    Histories,
    client_count,
    common_score,
    join_names,
    last_value,
    over_seeds,
    stop_reason,
    traffic,
    values_by_round,
)

SummaryRow = dict[str, Any]

RECALL = "withheld_recall"
TESTS = {"client": "On the clients' own test sets (mean of clients)", "global": "On the global test set"}
WHERE = ("workers", "engine", "ray_address")
MAY_DIFFER = ("method", "prediction", "seed", "out", *WHERE, "checkpoint_every", "made_by.task", "made_by.execution")


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


def _row(name: str, runs: Sequence[History], score: Score) -> SummaryRow:
    row: SummaryRow = {"method": name, "seeds": len(runs)}
    for key, metric in row_metrics(score).items():
        row[key], row[f"{key}_std"] = over_seeds([last_value(run, metric) for run in runs])
    row["efficiency"], row["efficiency_std"] = over_seeds([_efficiency(run, score) for run in runs])
    measured = [
        max((*values_by_round(run, score.shared), *values_by_round(run, score.clients)), default=None) for run in runs
    ]
    return row | {
        **traffic(runs),
        "steps": sum(run.total("steps") for run in runs) / len(runs),
        "rounds": min(max((r["round"] for r in run.records), default=0) for run in runs),
        "last_measured": min((r for r in measured if r is not None), default=None),
        "stopped": stop_reason(runs),
    }


def _efficiency(run: History, score: Score) -> float | None:
    """The score per selected client, mean over rounds; None if all clients took part in every round."""
    chosen = [len(r["selected"]) + len(r.get("lost", ())) for r in run.records if r["round"]]
    there = client_count(run) - int(run.config.get("new_clients", 0))
    return run.mean(score.over_clients("per_selected")) if chosen and min(chosen) < there else None


def _rounds_to_reach(runs: Sequence[History], reach: float | None) -> SummaryRow:
    if reach is None:
        return {}
    rounds = [found for found in (run.rounds_to(reach) for run in runs) if found is not None]
    return {"reach": reach, "reached": len(rounds), "rounds_to": sum(rounds) / len(rounds) if rounds else None}


def verdict(rows: Sequence[SummaryRow], score: Score = ACCURACY) -> str:
    """Which method is ahead on the clients' tests and on the global test, and whether the lead is established.

    Args:
        rows: What ``summary`` returned.
        score: The score of the runs.
    """
    finished = [row for row in rows if not row["stopped"]]
    found = [_lead([row for row in finished if row[f"{test}_{score.name}"] is not None], test, score) for test in TESTS]
    sentences = [sentence for sentence, _ in filter(None, found)]
    if not sentences:
        sentences = [
            f"Fewer than two methods ran to their end with a measured {score.title}, so there is nothing to compare."
        ]
    elif any(open_ for _, open_ in filter(None, found)):
        more = max(5, 2 * max(row["seeds"] for row in finished))
        sentences.append(f"More seeds may decide it, for example --seeds {more}.")
    early = [str(row["method"]) for row in rows if row["stopped"]]
    if early:
        sentences.append(f"Left out because {'it' if len(early) == 1 else 'they'} stopped early: {', '.join(early)}.")
    if len({row["rounds"] for row in finished}) > 1:
        sentences.append("The methods ran for different numbers of rounds, so their last values are not comparable.")
    return " ".join(sentences)


def _lead(rows: Sequence[SummaryRow], test: str, score: Score) -> tuple[str, bool] | None:
    """The sentence on one test, and whether the lead is still open."""
    if len(rows) < 2:
        return None
    key, on = f"{test}_{score.name}", TESTS[test] + ("" if score == ACCURACY else f", by {score.title},")
    first, second, *rest = sorted(rows, key=lambda row: -score.rank(row[key]))
    best, away = cell_text(first, key, score), "above" if score.higher_is_better else "below"
    lead = f"{score.gap_text(abs(first[key] - second[key]))} {away} {second['method']}"
    if first[key] == second[key]:
        return f"{on} {first['method']} and {second['method']} are level at {best}.", True
    if any(row[f"{key}_std"] is None for row in rows):
        once = "in this one run" if max(row["seeds"] for row in rows) == 1 else "in these runs"
        return (
            f"{on} {first['method']} is ahead {once} ({best}, {lead}), but with a single seed the lead is not "
            "established.",
            True,
        )
    unclear = [row for row in (second, *rest) if abs(first[key] - row[key]) <= _combined_std(first, row, key)]
    if unclear:
        names = join_names([str(row["method"]) for row in unclear])
        widest = max(_combined_std(first, row, key) for row in unclear)
        return (
            f"{on} {first['method']} has the {score.best} mean ({best}, {lead}), but its lead over {names} is not "
            f"established: it is within the combined standard deviation over seeds ({score.gap_text(widest)}).",
            True,
        )
    return (
        f"{on} {first['method']} is best: {best}, {lead} ({cell_text(second, key, score)}), which is more than the "
        f"combined standard deviation over {min(first['seeds'], second['seeds'])} seeds "
        f"({score.gap_text(_combined_std(first, second, key))}).",
        False,
    )


def _combined_std(one: SummaryRow, other: SummaryRow, key: str) -> float:
    return float((one[f"{key}_std"] ** 2 + other[f"{key}_std"] ** 2) ** 0.5)


def cell_text(row: SummaryRow, key: str, score: Score = ACCURACY) -> str:
    """A row's value for people, as ``87.3 ± 0.6 %``."""
    if row[key] is None:
        return "not measured"
    shown = ACCURACY if key == RECALL else score
    return shown.text(row[key], row[f"{key}_std"])


def differences(histories: Histories) -> list[str]:
    """The config keys, beside method and seed, in which the compared runs differ: a fair comparison has none.

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
