"""The summary table of a comparison, and the verdict on it.

There is a row per method. Every accuracy is the last one measured, averaged over the method's seeds. The verdict names
the best method, and claims a lead only if it exceeds the spread over seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedloom.runs.history import History
from fedloom.runs.statistics import (
    CLIENTS,
    CLIENTS_STD,
    GLOBAL,
    Histories,
    client_count,
    join_names,
    last_value,
    over_seeds,
    stop_reason,
    traffic,
    values_by_round,
)

SummaryRow = dict[str, Any]

METRICS = {
    "global_accuracy": GLOBAL,
    "client_accuracy": CLIENTS,
    "worst_decile": CLIENTS.removesuffix("mean") + "worst_decile",
    "client_spread": CLIENTS_STD,
    "new_accuracy": CLIENTS.removesuffix("mean") + "new",
    "withheld_recall": "client_model/own_test/withheld_recall/mean",
}
EFFICIENCY = CLIENTS.removesuffix("mean") + "per_selected"
TESTS = {
    "client_accuracy": "On the clients' own test sets (mean of clients)",
    "global_accuracy": "On the global test set",
}
WHERE = ("workers", "engine", "ray_address")
MAY_DIFFER = ("method", "prediction", "seed", "out", *WHERE, "checkpoint_every", "made_by.task")


def summary(histories: Histories, reach: float | None = None) -> list[SummaryRow]:
    """One row per method: final accuracies (mean and standard deviation over seeds), traffic, steps, why it stopped.

    ``<accuracy>_std`` is None with a single seed: one run does not say how much runs vary. With ``reach``, also after
    how many rounds clients' mean accuracy reached it (``rounds_to``, over the ``reached`` seeds that did).
    """
    return [_row(name, runs) | _rounds_to_reach(runs, reach) for name, runs in histories.items()]


def _row(name: str, runs: Sequence[History]) -> SummaryRow:
    row: SummaryRow = {"method": name, "seeds": len(runs)}
    for key, metric in METRICS.items():
        row[key], row[f"{key}_std"] = over_seeds([last_value(run, metric) for run in runs])
    row["efficiency"], row["efficiency_std"] = over_seeds([_efficiency(run) for run in runs])
    measured = [max((*values_by_round(run, GLOBAL), *values_by_round(run, CLIENTS)), default=None) for run in runs]
    return row | {
        **traffic(runs),
        "steps": sum(run.total("steps") for run in runs) / len(runs),
        "rounds": min(max((r["round"] for r in run.records), default=0) for run in runs),
        "last_measured": min((r for r in measured if r is not None), default=None),
        "stopped": stop_reason(runs),
    }


def _efficiency(run: History) -> float | None:
    """Accuracy per selected client, mean over rounds; None if all clients took part in every round."""
    chosen = [len(r["selected"]) + len(r.get("lost", ())) for r in run.records if r["round"]]
    there = client_count(run) - int(run.config.get("new_clients", 0))
    return run.mean(EFFICIENCY) if chosen and min(chosen) < there else None


def _rounds_to_reach(runs: Sequence[History], reach: float | None) -> SummaryRow:
    if reach is None:
        return {}
    rounds = [found for found in (run.rounds_to(reach) for run in runs) if found is not None]
    return {"reach": reach, "reached": len(rounds), "rounds_to": sum(rounds) / len(rounds) if rounds else None}


def verdict(rows: Sequence[SummaryRow]) -> str:
    """Which method is ahead on the clients' tests and on the global test, and whether the lead is established."""
    finished = [row for row in rows if not row["stopped"]]
    found = [_lead([row for row in finished if row[key] is not None], key) for key in TESTS]
    sentences = [sentence for sentence, _ in filter(None, found)]
    if not sentences:
        sentences = [
            "Fewer than two methods ran to their end with a measured accuracy, so there is nothing to compare."
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


def _lead(rows: Sequence[SummaryRow], key: str) -> tuple[str, bool] | None:
    """The sentence on one test, and whether the lead is still open."""
    if len(rows) < 2:
        return None
    first, second, *rest = sorted(rows, key=lambda row: -row[key])
    lead = f"{100 * (first[key] - second[key]):.1f} points"
    if first[key] == second[key]:
        return f"{TESTS[key]} {first['method']} and {second['method']} are level at {accuracy_text(first, key)}.", True
    if any(row[f"{key}_std"] is None for row in rows):
        once = "in this one run" if max(row["seeds"] for row in rows) == 1 else "in these runs"
        return (
            f"{TESTS[key]} {first['method']} is ahead {once} ({accuracy_text(first, key)}, {lead} above "
            f"{second['method']}), but with a single seed the lead is not established.",
            True,
        )
    unclear = [row for row in (second, *rest) if first[key] - row[key] <= _combined_std(first, row, key)]
    if unclear:
        names = join_names([str(row["method"]) for row in unclear])
        widest = max(_combined_std(first, row, key) for row in unclear)
        return (
            f"{TESTS[key]} {first['method']} has the highest mean ({accuracy_text(first, key)}, {lead} above "
            f"{second['method']}), but its lead over {names} is not established: it is within the combined "
            f"standard deviation over seeds ({100 * widest:.1f} points).",
            True,
        )
    return (
        f"{TESTS[key]} {first['method']} is best: {accuracy_text(first, key)}, {lead} above {second['method']} "
        f"({accuracy_text(second, key)}), which is more than the combined standard deviation over "
        f"{min(first['seeds'], second['seeds'])} seeds ({100 * _combined_std(first, second, key):.1f} points).",
        False,
    )


def _combined_std(one: SummaryRow, other: SummaryRow, key: str) -> float:
    return float((one[f"{key}_std"] ** 2 + other[f"{key}_std"] ** 2) ** 0.5)


def accuracy_text(row: SummaryRow, key: str) -> str:
    """A row's accuracy as text: ``87.3 ± 0.6 %``."""
    if row[key] is None:
        return "not measured"
    std = row[f"{key}_std"]
    return f"{100 * row[key]:.1f}{'' if std is None else f' ± {100 * std:.1f}'} %"


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
