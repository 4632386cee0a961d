"""The study of GAN attacks on FedAvg and FedSeq: FID against the accuracy of the model that judges, with both controls.

``fedseq_gan_runs.py`` has the runs. The document shows curves and pictures, and no number: FedAvg's FID is lower on
average at equal accuracy (figure 5.14), and pictures of one round are of similar quality although FedSeq's model is far
better (figure 5.15). A generator also gets better by the visits alone, and FedSeq reaches an accuracy after fewer of
them: the control with random weights shows how much of a difference that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isnan, nan
from statistics import fmean

import numpy as np

from fedloom.plotting.picture_rows import picture_rows
from fedloom.plotting.style import save_figure
from fedloom.reproduce.fedseq_gan_runs import (
    ADDED,
    CHAIN,
    CLIENTS,
    CONTROL,
    FEDAVG,
    FEDSEQ,
    METHODS,
    ORIGINAL,
    PART,
    ROUNDS,
    STEPS,
    VARIANTS,
    Attacks,
    AttackScores,
    VisitScore,
    gan_members,
    gan_results,
    label_of,
    read_pictures,
)
from fedloom.reproduce.study import (
    BASELINE,
    Study,
    StudyFinding,
    StudyOutcome,
    StudyRequest,
    StudyTable,
    ahead_finding,
    mean_text,
)
from fedloom.reproduce.testability import claim_above

LEVELS = (0.3, 0.6, 0.8, 0.9, 1.0)
"""The bounds of equal accuracy."""
BANDS = tuple(pairwise(LEVELS))
LOOKS = (10, 20, 30)
"""The rounds at which all runs are looked at."""


def fid_in(visits: Sequence[VisitScore], low: float, high: float) -> float:
    """The mean FID of the visits whose judge had an accuracy; NaN if there were none.

    Args:
        low: The least accuracy.
        high: What it stays below, unless that is 1.
    """
    found = [one.fid for one in visits if low <= one.accuracy and (one.accuracy < high or high >= 1)]
    return fmean(found) if found else nan


def last_until(visits: Sequence[VisitScore], round_number: int) -> VisitScore:
    """The last visit up to a round; NaN if there was none."""
    found = [one for one in visits if one.round <= round_number]
    return found[-1] if found else VisitScore(round_number, nan, nan)


def equal_accuracy(one: AttackScores, other: AttackScores) -> tuple[float, float]:
    """The FID of two runs at equal accuracy: means over the bands that both have visits in.

    Args:
        other: Another one.
    """
    pairs = [tuple(fid_in(run.visits, *band) for run in (one, other)) for band in BANDS]
    both = [pair for pair in pairs if not any(map(isnan, pair))]
    return (fmean(a for a, _ in both), fmean(b for _, b in both)) if both else (nan, nan)


def band_table(results: Attacks) -> StudyTable:
    """FID by the accuracy of the judge: a row per method and variant."""
    rows = []
    for (method, variant), runs in results.items():
        cells = [_fid_text([fid_in(run.visits, *band) for run in runs]) for band in BANDS]
        visits = f"{fmean(len(run.visits) for run in runs):.1f}"
        ends = [last_until(run.visits, ROUNDS).target for run in runs]
        rows.append((label_of(method, variant), *cells, visits, _share(ends), _share([run.accuracy for run in runs])))
    runs = results[FEDAVG, ADDED]
    empty = ["–"] * len(BANDS)
    for words, of in (("the attacker's own images", "own"), ("half of all images", "halves"), ("noise", "noise")):
        rows.append((words, *[_fid_text([getattr(run, of) for run in runs])] * len(BANDS), "–", "–", "–"))
    rows.append((BASELINE, *empty, "–", "–", _share([run.baseline for run in runs])))
    bands = (f"{100 * low:.0f} to {100 * high:.0f} %" for low, high in BANDS)
    columns = ("attack", *bands, "visits", "of the target (%)", "accuracy at the end (%)")
    return StudyTable("FID of what is made, by the accuracy of the model that judged it", columns, tuple(rows))


def round_table(results: Attacks) -> StudyTable:
    """Accuracy of the judge and FID at the same rounds: a row per method and variant."""
    rows = []
    for (method, variant), runs in results.items():
        cells = []
        for number in LOOKS:
            seen = [last_until(run.visits, number) for run in runs]
            there = [one for one in seen if not isnan(one.fid)]
            accuracy = mean_text([one.accuracy for one in there]) if there else "–"
            cells.append(f"{accuracy} / {_fid_text([one.fid for one in seen])}")
        rows.append((label_of(method, variant), *cells))
    runs = results[FEDAVG, ADDED]
    floor = f"{mean_text([run.baseline for run in runs])} / {_fid_text([run.own for run in runs])}"
    rows.append((f"{BASELINE} / own images", *[floor] * len(LOOKS)))
    columns = ("attack", *(f"round {number}" for number in LOOKS))
    return StudyTable("Accuracy of the judge (%) / FID, after the last visit up to a round", columns, tuple(rows))


def _share(values: Sequence[float]) -> str:
    """Mean and deviation in percent; – where nothing was measured."""
    return "–" if any(map(isnan, values)) else mean_text(values)


def _fid_text(values: Sequence[float]) -> str:
    """Mean and deviation of FIDs; how many seeds have one, where not all do."""
    found = [value for value in values if not isnan(value)]
    few = f" ({len(found)} of {len(values)} seeds)" if 0 < len(found) < len(values) else ""
    return f"{mean_text(found, 1.0)}{few}" if found else "–"


def lower_finding(says: str, one: Sequence[float], other: Sequence[float]) -> StudyFinding:
    """The finding that one FID is lower than another, seed by seed; not testable where a seed lacks one.

    Args:
        says: The sentence.
        one: The FIDs that should be lower.
    """
    if any(map(isnan, (*one, *other))):
        return StudyFinding(says, "not testable here: a seed has no visit that could be compared.", None)
    ours = f"{mean_text(one, 1.0)} and {mean_text(other, 1.0)}"
    return ahead_finding(says, ours, other, one, scale=1.0, unit="")


def gan_findings(results: Attacks) -> list[StudyFinding]:
    """The document's claims and the controls."""
    found = []
    for variant in VARIANTS:
        pairs = [equal_accuracy(*runs) for runs in zip(results[FEDAVG, variant], results[FEDSEQ, variant], strict=True)]
        start = "" if variant == ADDED else "Control, "
        says = f"{start}{variant}: at equal accuracy FedAvg's FID is lower than FedSeq's."
        found.append(lower_finding(says, [a for a, _ in pairs], [b for _, b in pairs]))
    end = {cell: [last_until(run.visits, ROUNDS) for run in runs] for cell, runs in results.items()}
    one, other = (end[method, ADDED] for method in (FEDSEQ, FEDAVG))
    floor = [run.baseline for run in results[FEDAVG, ADDED]]
    says = f"In round {ROUNDS} the model that judges is better in FedSeq."
    found.append(claim_above(says, [a.accuracy for a in one], [b.accuracy for b in other], floor))
    says = f"In round {ROUNDS} pictures are of similar quality: FedAvg's FID is not lower than FedSeq's."
    found.append(lower_finding(says, [a.fid for a in one], [b.fid for b in other]))
    for method in METHODS:
        says = f"Control, {method}: what the judge has learnt helps ({ADDED} has a lower FID than {CONTROL})."
        found.append(lower_finding(says, *([_mean_fid(run) for run in results[method, of]] for of in (ADDED, CONTROL))))
        says = f"Control, {method}: {ADDED} comes nearer to all images than the attacker's own images are."
        runs = results[method, ADDED]
        found.append(lower_finding(says, [one.fid for one in end[method, ADDED]], [run.own for run in runs]))
        sought, usual = ([visit.target for visit in end[method, which]] for which in (ORIGINAL, CONTROL))
        says = f"Control, {method}: more of what {ORIGINAL} makes is of its target than of what {CONTROL} makes."
        found.append(ahead_finding(says, f"{mean_text(sought)} and {mean_text(usual)} %", sought, usual))
    return found


def _mean_fid(run: AttackScores) -> float:
    """The mean over all visits, which are the same rounds for each variant."""
    return fmean(one.fid for one in run.visits) if run.visits else nan


def save_pictures(request: StudyRequest) -> None:
    """Draw what all attackers of the first seed had made by the last round, beside real images."""
    rows: dict[str, np.ndarray] = {}
    for member in gan_members(request):
        found = read_pictures(member.folder(request.out, 0))
        rows = {"real images": found["real"], "the attacker's own": found["own"]} | rows
        if len(found["made"]):
            rows[member.label] = found["made"]
    figure = picture_rows(rows, f"What was made by round {ROUNDS}")
    save_figure(figure, request.out / "pictures.svg")


def _run(request: StudyRequest) -> StudyOutcome:
    results = gan_results(request)
    save_pictures(request)
    note = (
        f"Digits at {CLIENTS} clients (Dirichlet, alpha 0.5), FedSeq in chains of {CHAIN}, {100 * PART:.0f} % of "
        f"clients or chains in a round, {ROUNDS} rounds; one attacker, {STEPS} steps per visit; FID by features of a "
        "classifier trained in one place, to the training images of all clients (lower is better for the attacker; not "
        f"Inception's; {ORIGINAL} seeks one class, and is far from images of all); mean ± standard deviation over "
        f"{request.seeds} seeds. What was made by the last round is in pictures.svg."
    )
    tables = (band_table(results), round_table(results))
    title = "GAN attacks on FedAvg and FedSeq"
    values = {label_of(*cell): runs for cell, runs in results.items()}
    return StudyOutcome("fedseq-gan", title, tables, tuple(gan_findings(results)), (note,), values)


STUDIES = (
    Study(
        "fedseq-gan",
        "GAN attacks on FedSeq and FedAvg: FID at equal accuracy, with two controls, on digits (18 runs, 90 seconds)",
        _run,
        gan_members,
    ),
)
