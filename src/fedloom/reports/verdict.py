"""The verdict on a comparison: what was learnt at all, which method is best, and which cannot be told apart.

It names the best method where paired differences over seeds establish its lead (``runs/results/significance.py``), and
otherwise the methods that cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedloom.reports.summary_table import SummaryRow, cell_text, is_apart, summary
from fedloom.rounds.score import ACCURACY, Score
from fedloom.runs.results.baseline_verdict import baseline_sentence
from fedloom.runs.results.significance import LEAST_SEEDS, Race, race
from fedloom.runs.results.summaries import Histories, common_score, is_finite, join_names, values_by_seed

ONE_CLASS = 0.8
"""From this share of one class on, methods that are no better than always answering it may still differ in the rest."""
TESTS = {"client": "On the clients' own test sets (mean of clients)", "global": "On the global test set"}


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
    if warns and score == ACCURACY:
        sentences += _rare_classes_sentence(histories)
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


def _rare_classes_sentence(histories: Histories) -> list[str]:
    """That accuracy says little of rare classes, where one class has most of the test samples; empty elsewhere."""
    counted = [np.array(run.confusion) for runs in histories.values() for run in runs if run.confusion]
    shares = [float(one.sum(1).max() / one.sum()) for one in counted if one.sum()]
    if not shares or min(shares) < ONE_CLASS:
        return []
    return [
        f"{100 * float(np.mean(shares)):.0f} % of the test samples are of one class, so accuracy says little of the "
        "others: task.metrics=macro_f1 counts each class the same."
    ]


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
        said, is_open = _level_sentence(ranked, ties, best)
        return f"{on} {said}", is_open
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


def _level_sentence(ranked: Race, ties: Sequence[str], best: str) -> tuple[str, bool]:
    """Which methods share the best mean, what of the others is known, and whether more seeds may change something."""
    same = all(lead.gap == 0 and lead.low == lead.high == 0 for lead in ranked.leads if lead.rival in ties)
    behind = [lead.rival for lead in ranked.leads if lead.is_established]
    near = [name for name in ranked.level if name not in ties]
    words = f"{join_names(ties)} are level at {best}{' with every seed' if same else ''}."
    if behind:
        words += f" They are better than {join_names(behind)} ({ranked.basis('seeds')})."
    if near:
        words += f" That {join_names(near)} {'is' if len(near) == 1 else 'are'} behind is not established."
    return words, bool(near) or not same


def _over_clients(first: SummaryRow, second: SummaryRow, histories: Histories, score: Score) -> str:
    """The leader against the second over the clients of one seed; nothing where they were not measured one by one."""
    runs = {
        str(row["method"]): {run.config.get("seed", 0): run for run in histories[str(row["method"])]}
        for row in (first, second)
    }
    shared = next((seed for seed in runs[str(first["method"])] if all(seed in own for own in runs.values())), None)
    if shared is None:  # clients of different seeds are different clients
        return ""
    scores = {
        name: {r["client"]: score.rank(r[score.name]) for r in own[shared].clients if is_finite(r.get(score.name))}
        for name, own in runs.items()
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
