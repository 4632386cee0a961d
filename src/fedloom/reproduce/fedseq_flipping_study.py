"""The study of label flipping against FedAvg and FedSeq: the document's tables 5.7 and 5.8, and robust rules.

``fedseq_flipping_runs.py`` has the runs. Swapped classes may be hard ones (cats and dogs), so that their accuracy is
also shown where nobody swaps them: the document has no such number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan
from statistics import fmean
from typing import Any

from fedloom.reproduce.fedseq_flipping_claims import flipping_findings
from fedloom.reproduce.fedseq_flipping_runs import (
    BASELINE,
    CHAIN,
    CLIENTS,
    DEFENCES,
    DEFENDED,
    FEDAVG,
    FEDSEQ,
    HIDDEN,
    METHODS,
    PART,
    ROUNDS,
    SHARES,
    SWAPS,
    FlippingCell,
    Results,
    Swap,
    cells,
    data_of,
    flipping_results,
    global_of,
    swapped_of,
    unattacked,
)
from fedloom.reproduce.published_tables import published
from fedloom.reproduce.study import BASELINE as BASELINE_ROW
from fedloom.reproduce.study import Study, StudyOutcome, StudyRequest, StudyTable, gaps_of, mean_text


def mean_table(results: Results, data: str) -> StudyTable:
    """Table 5.7: the means over L, global and swapped, with the document's numbers.

    Args:
        data: The corpus.
    """
    reported, rows = published("fedseq_attacks").tables["accuracy"], []
    for swap in SWAPS[data]:
        row = [swap.label]
        for method in METHODS:
            attacked = [FlippingCell(method, share, swap) for share in SHARES]
            row.append(_pair(global_of(results, *attacked), swapped_of(results, *attacked)))
            row.append(reported.text(f"{data}, {swap.label}", method, f"{method}, swapped"))
        rows.append(tuple(row))
    for swap in SWAPS[data]:
        plain = _pair(global_of(results, BASELINE), unattacked(results, BASELINE, swap))
        if swap.pairing == "fixed":  # the classes are the same where pairings are random
            rows.append((f"{BASELINE_ROW}, {swap.name}", plain, "–", plain, "–"))
    columns = ("swapped", *(f"{method}{of}" for method in METHODS for of in ("", ", document")))
    return StudyTable("Table 5.7: global / swapped accuracy (%), means over L", columns, tuple(rows))


def gap_table(results: Results, data: str) -> StudyTable:
    """Table 5.8: what FedSeq is above FedAvg for each L, with the document's numbers.

    Args:
        data: The corpus.
    """
    reported, rows, swaps = published("fedseq_attacks").tables["gap"], [], SWAPS[data]
    for share in (0.0, *SHARES):
        ahead, behind = ([FlippingCell(method, share, swap) for swap in swaps] for method in (FEDSEQ, FEDAVG))
        if share:
            gaps = [gaps_of(of(results, *ahead), of(results, *behind)) for of in (global_of, swapped_of)]
        else:
            gaps = [
                gaps_of(global_of(results, FlippingCell(FEDSEQ)), global_of(results, FlippingCell(FEDAVG))),
                gaps_of(
                    unattacked(results, FlippingCell(FEDSEQ), *swaps), unattacked(results, FlippingCell(FEDAVG), *swaps)
                ),
            ]
        rows.append((f"{share:g}", _pair(*gaps), reported.text(f"{data}, {share:g}")))
    nothing = [0.0] * len(results[BASELINE])
    rows.append((BASELINE_ROW, _pair(nothing, nothing), "–"))
    columns = ("L", "ours", "document")
    return StudyTable("Table 5.8: FedSeq minus FedAvg, global / swapped accuracy (points)", columns, tuple(rows))


def share_table(results: Results, data: str) -> StudyTable:
    """The numbers behind both tables: a row for each way of swapping and method, a column for each L.

    Args:
        data: The corpus.
    """
    rows = []
    for swap in SWAPS[data]:
        for method in METHODS:
            row = [f"{method}, {swap.label}", _pair(*_scores(results, FlippingCell(method), swap))]
            row += [_pair(*_scores(results, FlippingCell(method, share, swap), swap)) for share in SHARES]
            rows.append(tuple(row))
    rows += [row for swap in SWAPS[data] if swap.pairing == "fixed" for row in _baseline_rows(results, swap)]
    return StudyTable("Global / swapped accuracy (%) for each L", _share_columns("method, swapped"), tuple(rows))


def defence_table(results: Results, data: str) -> StudyTable:
    """Robust rules against one way of swapping: a row for each method and rule, a column for each L.

    Args:
        data: The corpus.
    """
    swap, rows = DEFENDED[data], []
    for method in METHODS:
        for rule in DEFENCES:
            all_cells = [
                FlippingCell(method, 0.0, None, rule),
                *(FlippingCell(method, share, swap, rule) for share in SHARES),
            ]
            texts = [_pair(*_scores(results, cell, swap)) if cell in results else "–" for cell in all_cells]
            rows.append((f"{method}, {rule.label}", *texts))
    rows += _baseline_rows(results, swap)
    title = f"Robust rules, {swap.label}: global / swapped accuracy (%)"
    return StudyTable(title, _share_columns("method, rule"), tuple(rows))


def _share_columns(first: str) -> tuple[str, ...]:
    return (first, "L = 0", *(f"L = {share:g}" for share in SHARES))


def _baseline_rows(results: Results, swap: Swap) -> Iterator[tuple[str, ...]]:
    text = _pair(*_scores(results, BASELINE, swap))
    yield (f"{BASELINE_ROW}, {swap.name}", *[text] * (1 + len(SHARES)))


def _scores(results: Results, cell: FlippingCell, swap: Swap) -> tuple[list[float], list[float]]:
    """The accuracy in all and of the classes of a swap, whether or not somebody swaps them in this cell."""
    swapped = unattacked(results, cell, swap) if cell.swap is None else swapped_of(results, cell)
    return global_of(results, cell), swapped


def _pair(everything: Sequence[float], swapped: Sequence[float]) -> str:
    return " / ".join("–" if isnan(fmean(some)) else mean_text(some) for some in (everything, swapped))


def _run(request: StudyRequest) -> StudyOutcome:
    data, results = data_of(request), flipping_results(request)
    title = f"FedSeq and FedAvg under label flipping, on {data}"
    note = (
        f"{CLIENTS} clients that are alike (Dirichlet, alpha 100), FedSeq in {CLIENTS // CHAIN} given chains of "
        f"{CHAIN}; {100 * PART:.0f} % of clients or chains in a round; a hidden layer of {HIDDEN}, {ROUNDS[data]} "
        f"rounds of one epoch; the shared model on the test set, mean ± standard deviation over {request.seeds} seeds. "
        "L is the share of hostile clients, or of hostile chains with all their members. – is what a rule refuses, or "
        "the document does not have."
    )
    tables = tuple(table(results, data) for table in (mean_table, gap_table, share_table, defence_table))
    return StudyOutcome(
        "fedseq-flipping", title, tables, tuple(flipping_findings(results, data)), (note,), _plain(results)
    )


def _plain(results: Results) -> dict[str, Any]:
    """The numbers behind the tables."""
    return {cell.label: [vars(one) for one in some] for cell, some in results.items()}


STUDIES = (
    Study(
        "fedseq-flipping",
        "label flipping against FedSeq and FedAvg, with robust rules beside them, on CIFAR (162 runs)",
        _run,
        lambda request: [member for _, member in cells(data_of(request))],
        data=tuple(SWAPS),
    ),
)
