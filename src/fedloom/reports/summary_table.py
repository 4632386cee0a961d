"""The summary table of a comparison, and the verdict on it.

There is a row per method. Every score is the last one measured, averaged over the method's seeds. The verdict names
the best method where paired differences over seeds establish its lead (``runs/results/significance.py``), and otherwise
the methods that cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fedloom.core.algorithm import Algorithm
from fedloom.core.facts import Fact, holds
from fedloom.registry.kinds import METHODS
from fedloom.rounds.record_keys import turns_of
from fedloom.rounds.score import ACCURACY, Score
from fedloom.runs.results.baseline_verdict import baseline_sentence
from fedloom.runs.results.baselines import baselines_of_runs
from fedloom.runs.results.history import History
from fedloom.runs.results.significance import LEAST_SEEDS, Race, race
from fedloom.runs.results.summaries import (
    Histories,
    client_count,
    common_score,
    is_finite,
    join_names,
    last_value,
    over_seeds,
    stop_reason,
    traffic,
    values_by_round,
    values_by_seed,
)

SummaryRow = dict[str, Any]

RECALL = "withheld_recall"
TESTS = {"client": "On the clients' own test sets (mean of clients)", "global": "On the global test set"}
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


def verdict(histories: Histories) -> str:
    """Which method is best on the clients' tests and on the global test, or which ones cannot be told apart."""
    rows, score = summary(histories), common_score(histories)
    finished = [row for row in rows if not row["stopped"]]
    found = [_race_sentence(ranked, rows, histories, test, score) for test, ranked in _races(histories, rows)]
    sentences = [sentence for sentence, _ in found]
    against, warns = baseline_sentence({str(row["method"]): histories[row["method"]] for row in finished}, score)
    if not sentences and len(histories) > 1:
        sentences = [
            f"Fewer than two methods ran to their end with a measured {score.title}, so there is nothing to compare."
        ]
    elif any(open_ for _, open_ in found):
        more = max(5, 2 * max(row["seeds"] for row in finished))
        sentences.append(f"More seeds may decide it, for example --seeds {more}.")
    apart = [str(row["method"]) for row in rows if is_apart(row, f"global_{score.name}")]
    if apart:
        sentences.append(
            f"* The global model of {join_names(apart)} learns nothing from clients, so it is not compared on the "
            "global test set."
        )
    early = [str(row["method"]) for row in rows if row["stopped"]]
    if early:
        sentences.append(f"Left out because {'it' if len(early) == 1 else 'they'} stopped early: {', '.join(early)}.")
    if len({row["rounds"] for row in finished}) > 1 and not any(row.get("early_stopping") for row in finished):
        sentences.append("The methods ran for different numbers of rounds, so their last values are not comparable.")
    # What was not learnt comes first: who leads among methods that lose to a constant is nobody's question.
    first = [one for one in (against if warns else "", _one_class_sentence(histories)) if one]
    return " ".join([*first, *sentences, *([against] if against and not warns else [])])


def _one_class_sentence(histories: Histories) -> str:
    """Which methods answer the same class for every test sample, though there are several; empty if none does."""
    found = []
    for name, runs in histories.items():
        counted = [np.array(run.confusion) for run in runs if run.confusion]
        if counted and all((one.sum(0) > 0).sum() == 1 < (one.sum(1) > 0).sum() for one in counted):
            found.append(name)
    verb = "answers" if len(found) == 1 else "answer"
    return f"{join_names(found)} {verb} one class for every test sample." if found else ""


def evidence(histories: Histories) -> list[dict[str, Any]]:
    """The numbers behind the verdict: on each test, a row for each rival of the leader, the nearest first.

    Returns:
        Rows of ``metric``, ``leader``, ``rival``, ``lead`` (by how much the leader's mean over seeds is better, in the
        unit of the score), ``low`` and ``high`` (the 95 % interval of the lead; None with fewer than two seeds), ``p``
        (corrected for the number of methods), ``seeds`` (that both have), and ``established``.
    """
    score = common_score(histories)
    return [
        {"metric": _metric(test, score), "leader": ranked.leader, "rival": lead.rival, **lead.row("seeds")}
        for test, ranked in _races(histories, summary(histories))
        for lead in ranked.leads
    ]


def is_apart(row: SummaryRow, key: str) -> bool:
    """Whether a score is that of a global model that owes nothing to clients, and has no part in comparisons.

    Args:
        key: The score.
    """
    return key.startswith("global_") and row[key] is not None and not row["global_model_is_federated"]


def _metric(test: str, score: Score) -> str:
    return {"client": score.clients, "global": score.shared}[test]


def _races(histories: Histories, rows: Sequence[SummaryRow]) -> list[tuple[str, Race]]:
    """The race on each test in which at least two methods were measured, of those that ran to their end."""
    score = common_score(histories)
    found = []
    for test in TESTS:
        key = f"{test}_{score.name}"
        names = [
            row["method"] for row in rows if not row["stopped"] and row[key] is not None and not is_apart(row, key)
        ]
        if len(names) > 1:
            scores = {name: values_by_seed(histories[name], _metric(test, score), score.rank) for name in names}
            found.append((test, race(scores, LEAST_SEEDS)))
    return found


def _race_sentence(
    ranked: Race, rows: Sequence[SummaryRow], histories: Histories, test: str, score: Score
) -> tuple[str, bool]:
    """The sentence on one test, and whether a lead is still open."""
    key = f"{test}_{score.name}"
    by_method = {
        str(row["method"]): row
        for row in rows
        if not row["stopped"] and row[key] is not None and not is_apart(row, key)
    }
    on = TESTS[test] + ("" if score == ACCURACY else f", by {score.title},")
    first, second = by_method[ranked.leader], by_method[ranked.leads[0].rival]
    best, away = cell_text(first, key, score), "above" if score.higher_is_better else "below"
    ties = [name for name, row in by_method.items() if row[key] == first[key]]
    if len(ties) > 1:
        same = all(lead.gap == 0 and lead.low == lead.high == 0 for lead in ranked.leads if lead.rival in ties)
        equal = " with every seed" if same and first["seeds"] > 1 else ""
        return f"{on} {join_names(ties)} are level at {best}{equal}.", not equal
    lead = f"{score.gap_text(abs(first[key] - second[key]))} {away} {second['method']}"
    fewest = min(one.units for one in ranked.leads)
    if fewest < LEAST_SEEDS:
        once = "in this one run" if max(row["seeds"] for row in by_method.values()) == 1 else "in these runs"
        few = "two seeds do" if fewest == 2 else "one seed does"
        words = f"{on} {first['method']} is ahead {once} ({best}, {lead}), but {few} not establish a lead."
        return words + (_over_clients(first, second, histories, score) if test == "client" else ""), True
    if ranked.level:
        apart, behind = join_names(ranked.level), [one.rival for one in ranked.leads if one.is_established]
        losers = f" It is better than {join_names(behind)}." if behind else ""
        return (
            f"{on} {first['method']} has the {score.best} mean ({best}, {lead}), but it cannot be told apart from "
            f"{apart} ({ranked.basis('seeds')}).{losers}",
            True,
        )
    nearest = min(ranked.leads, key=lambda one: one.gap)
    low, high = (score.gap_text(end or 0.0) for end in (nearest.low, nearest.high))
    other = cell_text(by_method[nearest.rival], key, score)
    return (
        f"{on} {first['method']} is best: {best}, {score.gap_text(nearest.gap)} {away} {nearest.rival} "
        f"({other}; between {low.removesuffix(' points')} and {high}; {ranked.basis('seeds')}).",
        False,
    )


def _over_clients(first: SummaryRow, second: SummaryRow, histories: Histories, score: Score) -> str:
    """The leader against the second over the clients of one seed; nothing where they were not measured one by one."""
    scores = {}
    for row in (first, second):
        rows = histories[str(row["method"])][0].clients
        scores[str(row["method"])] = {
            r["client"]: score.rank(r[score.name]) for r in rows if is_finite(r.get(score.name))
        }
    if min(map(len, scores.values())) < 2:
        return ""
    ranked = race(scores)
    (lead,) = ranked.leads
    verb = "is better than" if lead.is_established else "cannot be told apart from"
    return (
        f" There {ranked.leader} {verb} {lead.rival} ({ranked.basis('clients')}: over clients of one seed; another "
        "seed may differ)."
    )


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
